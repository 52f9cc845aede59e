"""FillShelf, version 0, not in Kafka: a leader asks this SPU to fill a shelf with records copied from the leader."""

from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse
from tailrace.server.request_context import RequestContext

from .store_host import ShelfHost


async def handle(host: ShelfHost, context: RequestContext, request: FillShelfRequest) -> FillShelfResponse:
    return await host.shelf_keeper.filling.respond(request)
