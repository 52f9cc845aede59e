"""FillShelf, version 0, ours: the leader of a partition has a shelf of it filled here, with records copied from it."""

from typing import TYPE_CHECKING

from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(spu: "Spu", context: RequestContext, request: FillShelfRequest) -> FillShelfResponse:
    return await spu.shelves.filling.answer(request)
