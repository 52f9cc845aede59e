"""Asks an SPU for a description, and explains in one sentence if it does not respond.

A person who inspects a cluster wants to see the rest of it. So an SPU that is offline delays the result only a little.
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
    """The SPU does not respond; the message is one sentence that says why."""


async def response_of(
    spu: SpuId,
    request: Request,
    ask: Callable[[SpuId, Request], Awaitable[Response]],
    local: LocalStore,
    seconds_max: float,
) -> Response:
    """Asks an SPU and returns its response. Raises NoResponseError. `ask` may raise LinkClosed, with a sentence."""
    if spu not in local.spus or not local.spus[spu].is_online:
        raise NoResponseError(f"SPU {spu} is not online")
    with trio.move_on_after(seconds_max):
        try:
            return await ask(spu, request)
        except LinkClosed as reason:
            raise NoResponseError(str(reason)) from reason
    raise NoResponseError(f"SPU {spu} did not respond within {seconds_max:g} s")
