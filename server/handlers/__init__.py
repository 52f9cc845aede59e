"""One module per Kafka API that SPUs and the Streaming Controller answer alike, and the tables that name them.

Modules are imported on their first request: a server that is asked for little never loads the rest.
"""

import importlib
from collections.abc import Callable
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.server.host import Host
from tailrace.server.request_context import Reply, RequestContext

Handler = Callable[[Host, RequestContext, Any], Reply]

SHARED = frozenset({ApiKey.API_VERSIONS})
"""Answered from what every host knows."""


def load(api_key: int) -> Handler:
    """The handler of a shared API: `handle` of the module with the API's name."""
    assert api_key in SHARED, "the others belong to their hosts"
    module = importlib.import_module(f"tailrace.server.handlers.{ApiKey(api_key).name.lower()}")
    handler: Handler = module.handle
    return handler
