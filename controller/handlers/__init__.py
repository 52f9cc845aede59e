"""Handlers of the APIs that only the SC serves, one module for each, imported on the first request. Most are for the
command line. May import administration, connections, inspection and all that these import.
"""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.controller.administration.object_administration import ObjectAdministration
from tailrace.controller.connections.connection_documents import ConnectionRow
from tailrace.controller.inspection.controller_documents import ControllerRow
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.status_changes import StatusChanges
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_server import DescribeServerResponse
from tailrace.protocol.internal_apis import SC_OBJECT_APIS, InternalApiKey
from tailrace.server.request_context import Reply, RequestContext

if TYPE_CHECKING:
    from tailrace.controller.administration.archive_requests import ArchiveRequests
    from tailrace.controller.administration.trigger_requests import TriggerRequests


class ObjectHost(Protocol):
    """The parts of the SC that these handlers use."""

    @property
    def objects(self) -> ObjectAdministration: ...

    @property
    def connections(self) -> Callable[[], Sequence[ConnectionRow]]: ...

    @property
    def controllers(self) -> Callable[[], Sequence[ControllerRow]]: ...

    @property
    def local(self) -> LocalStore: ...

    @property
    def status_changes(self) -> StatusChanges: ...

    @property
    def describe_server(self) -> Callable[[], DescribeServerResponse]: ...

    @property
    def trigger_requests(self) -> Callable[[], "TriggerRequests"]: ...

    @property
    def archive_requests(self) -> Callable[[], "ArchiveRequests"]: ...

    @property
    def ask_spu(self) -> Callable[[SpuId, Any], Awaitable[Any]]:
        """Asks an SPU and returns its response. Raises LinkClosed, with a sentence, if the SPU cannot be asked."""


OWN = frozenset({ApiKey.LIST_OFFSETS})
"""Kafka's APIs that the SC serves with a handler of its own."""

Handler = Callable[[ObjectHost, RequestContext, Any], Reply]


def load(api_key: int) -> Handler:
    """Returns the function `handle` of the module with the API's name."""
    assert api_key in SC_OBJECT_APIS or api_key in OWN, "other APIs have handlers that SPUs share"
    name = ApiKey(api_key).name if api_key in OWN else InternalApiKey(api_key).name
    module = importlib.import_module(f"tailrace.controller.handlers.{name.lower()}")
    handler: Handler = module.handle
    return handler
