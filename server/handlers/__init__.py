"""Handlers of the APIs that SPUs and the Streaming Controller answer with the same code, and how to find them.

There is one module for each API, named after it. A module is imported when its first request arrives, so that a server
loads only what it needs. CONTRIBUTING.md says how to add an API.
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
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_ACLS,
    }
)
"""The APIs that every host answers from its mirror of the cluster."""

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
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_CLIENT_QUOTAS,
    }
)
"""The APIs that change the cluster, or ask how far a change is. The Streaming Controller carries them out; an SPU
forwards them, see `broker/handlers/administration/forwarded_apis.py`."""


IN_SECURITY = frozenset(
    {
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
"""The APIs whose modules are in the sub-package `security`."""


def load(api_key: int) -> Handler:
    """Imports the module that handles a shared API, and returns its handler."""
    assert api_key in SHARED, "the handlers of other APIs need more than a Host"
    handler: Handler = _handle_of(api_key)
    return handler


def load_administrative(api_key: int) -> AdministrativeHandler:
    """Imports the module that handles an administrative API, and returns its handler."""
    assert api_key in ADMINISTRATIVE, "the handlers of other APIs need no AdministeringHost"
    handler: AdministrativeHandler = _handle_of(api_key)
    return handler


def _handle_of(api_key: int) -> Any:
    """Returns the function `handle` of the module that is named after the API."""
    room = "security." if api_key in IN_SECURITY else ""
    return importlib.import_module(f"tailrace.server.handlers.{room}{ApiKey(api_key).name.lower()}").handle
