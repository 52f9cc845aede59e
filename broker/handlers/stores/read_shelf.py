"""ReadShelf, version 0, ours: the leader of a partition reads what it has no more itself, for its consumers."""

from typing import TYPE_CHECKING

from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(spu: "Spu", context: RequestContext, request: ReadShelfRequest) -> ReadShelfResponse:
    return await spu.shelves.reading.read(request)
