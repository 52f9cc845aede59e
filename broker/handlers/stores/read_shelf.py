"""ReadShelf, version 0, ours: the leader of a partition reads what it has no more itself, for its consumers."""

from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.server.request_context import RequestContext

from .store_host import ShelfHost


async def handle(host: ShelfHost, context: RequestContext, request: ReadShelfRequest) -> ReadShelfResponse:
    return await host.shelves.reading.read(request)
