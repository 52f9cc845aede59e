"""FillShelf, version 0, ours: the leader of a partition has a shelf of it filled here, with records copied from it."""

from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse
from tailrace.server.request_context import RequestContext

from .store_host import ShelfHost


async def handle(host: ShelfHost, context: RequestContext, request: FillShelfRequest) -> FillShelfResponse:
    return await host.shelves.filling.answer(request)
