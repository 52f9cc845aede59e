"""One module per API of the SC's own, by which the command line asks for objects; imported on their first request."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tailrace.controller.connection_documents import ConnectionRow
from tailrace.controller.object_administration import ObjectAdministration
from tailrace.controller.partition_descriptions import PartitionDescriptions
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, InternalApiKey
from tailrace.server.request_context import Reply, RequestContext


class ObjectHost(Protocol):
    """What these handlers need of the SC."""

    @property
    def objects(self) -> ObjectAdministration: ...

    @property
    def connections(self) -> Callable[[], Sequence[ConnectionRow]]: ...

    @property
    def partitions(self) -> PartitionDescriptions: ...


Handler = Callable[[ObjectHost, RequestContext, Any], Reply]


def load(api_key: int) -> Handler:
    """`handle` of the module with the API's name."""
    assert api_key in SC_OBJECT_APIS, "the others are not about objects"
    module = importlib.import_module(f"tailrace.controller.handlers.{InternalApiKey(api_key).name.lower()}")
    handler: Handler = module.handle
    return handler
