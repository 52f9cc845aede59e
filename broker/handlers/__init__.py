"""One module per Kafka API that only an SPU answers; `server/handlers/` has the others.

A handler returns its response, or None when it will respond later through the context; a coroutine does rare work.
Modules are imported on their first request: a broker that only produces and fetches never loads the rest.
"""

import importlib
from collections.abc import Callable
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal_apis import INTERNAL_KEY_MIN, InternalApiKey

Handler = Callable[..., Any]


def load(api_key: int) -> Handler:
    """The handler of an SPU's own API: `handle` of the module with the API's name."""
    name = InternalApiKey(api_key).name if api_key >= INTERNAL_KEY_MIN else ApiKey(api_key).name
    module = importlib.import_module(f"tailrace.broker.handlers.{name.lower()}")
    handler: Handler = module.handle
    return handler
