"""What an SPU answers that is asked for a description, or one sentence on why it does not.

People who look at a cluster want to see the rest of it, too: an SPU that is away holds them up for a moment at most.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import SpuId
from tailrace.server.private_link import LinkClosed

Request = TypeVar("Request")
Response = TypeVar("Response")


class NoResponseError(Exception):
    """One sentence on why the SPU says nothing."""


async def response_of(
    spu: SpuId,
    request: Request,
    ask: Callable[[SpuId, Request], Awaitable[Response]],
    local: LocalStore,
    seconds_max: float,
) -> Response:
    """Raises NoAnswerError. `ask` may raise LinkClosed, with a sentence."""
    if spu not in local.spus or not local.spus[spu].is_online:
        raise NoResponseError(f"SPU {spu} is not online")
    with trio.move_on_after(seconds_max):
        try:
            return await ask(spu, request)
        except LinkClosed as reason:
            raise NoResponseError(str(reason)) from reason
    raise NoResponseError(f"SPU {spu} did not answer within {seconds_max:g} s")
