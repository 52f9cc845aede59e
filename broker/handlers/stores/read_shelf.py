"""ReadShelf, version 0, not in Kafka: a leader reads, for its consumers, records that its own log does not have any
more."""

from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.server.request_context import RequestContext

from .store_host import ShelfHost


async def handle(host: ShelfHost, context: RequestContext, request: ReadShelfRequest) -> ReadShelfResponse:
    return await host.shelf_keeper.serving.read(request)
