"""One module per Kafka API that SPUs and the Streaming Controller answer with the same code, and how they are found.

Modules are imported on their first request: a server that is asked for little never loads the rest.
"""

import importlib
from collections.abc import Callable
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.server.host import AdministeringHost, Host
from tailrace.server.request_context import Reply, RequestContext

Handler = Callable[[Host, RequestContext, Any], Reply]
AdministrativeHandler = Callable[[AdministeringHost, RequestContext, Any], Reply]

SHARED = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.FIND_COORDINATOR,
    }
)
"""Every host answers these from what it knows."""

ADMINISTRATIVE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)
"""These change the cluster, or ask how far a change is."""


def load(api_key: int) -> Handler:
    """The handler of a shared API."""
    assert api_key in SHARED, "the others need more than a host"
    handler: Handler = _handle_of(api_key)
    return handler


def load_administrative(api_key: int) -> AdministrativeHandler:
    assert api_key in ADMINISTRATIVE, "the others change nothing"
    handler: AdministrativeHandler = _handle_of(api_key)
    return handler


def _handle_of(api_key: int) -> Any:
    """`handle` of the module with the API's name."""
    return importlib.import_module(f"tailrace.server.handlers.{ApiKey(api_key).name.lower()}").handle
