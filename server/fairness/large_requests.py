"""Reads and handles heavy requests in steps, one request at a time, and bounds their elements.

A request of a megabyte can have half a million elements, and reading it takes a second. A few kilobytes of compressed
records can take as long to check. Other clients are served between the steps. One request at a time is read and
handled, so that the memory of one is all that they need.
"""

from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import TypeVar

import trio

from tailrace.protocol.codec.compile import Steps
from tailrace.protocol.codec.decoder_source import ELEMENTS_MAX
from tailrace.server.handlers import ADMINISTRATIVE
from tailrace.server.request_context import RequestMeter

from .crowd import Crowd

ELEMENTS_AT_ONCE = 5_000
"""How many elements a request may have to be read at once."""
ELEMENTS_EXPECTED = 10_000
"""How many elements any request may have, even if the cluster is small."""
CHANGED_ELEMENTS_EXPECTED = 100_000
"""How many elements a request may have that changes the cluster: it may describe thousands of new partitions."""
ELEMENTS_PER_PARTITION = 4
"""How many elements a request may have for each partition of the cluster."""
STEP_SECONDS = 0.001
"""How long a step takes at least before other clients are served."""
HELD_BYTES_MAX = 16 * 2**20
"""The size of all requests that are handled in steps, or wait for that. The last one may exceed it."""

Result = TypeVar("Result")


def elements_max(api_key: int, partition_count: int) -> int:
    """Returns how many elements a request may have in a cluster with so many partitions.

    Nearly all requests name things that the cluster has. A request that names far more is an attack or a mistake, and
    handling it would hold up all other clients.
    """
    expected = CHANGED_ELEMENTS_EXPECTED if api_key in ADMINISTRATIVE else ELEMENTS_EXPECTED
    return min(ELEMENTS_MAX, max(expected, ELEMENTS_PER_PARTITION * partition_count))


class LargeRequests:
    """The large requests of a server."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        """The busy connections, with which large requests take turns."""
        self._reading = trio.Lock()
        self.held_bytes = 0
        """The size of the requests that are handled in steps, or wait for that."""

    @property
    def has_room(self) -> bool:
        """Whether another request may be handled in steps."""
        return self.held_bytes < HELD_BYTES_MAX

    def take_steps(
        self,
        steps: Generator[None, None, Result],
        size: int,
        end_turn: Callable[[], None],
        meter: RequestMeter | None = None,
    ) -> Coroutine[object, object, Result]:
        """Returns a coroutine that handles a request of this size in steps, and returns the result of the last one.

        `end_turn` is called whenever other clients are served. A step takes at most about a millisecond. `meter`
        counts the time of the steps, if the client has quotas.
        """
        self.held_bytes += size
        return self._take_steps(steps, size, end_turn, meter)

    async def _take_steps(
        self,
        steps: Generator[None, None, Result],
        size: int,
        end_turn: Callable[[], None],
        meter: RequestMeter | None,
    ) -> Result:
        try:
            async with self._reading:
                while True:
                    await self.crowd.enter()
                    if meter is not None:
                        meter.resumed()
                    try:
                        until = trio.current_time() + STEP_SECONDS
                        while trio.current_time() < until:
                            next(steps)
                    except StopIteration as end:
                        result: Result = end.value
                        return result
                    finally:
                        end_turn()
                        if meter is not None:
                            meter.handled()
                        self.crowd.leave()
        finally:
            self.held_bytes -= size

    async def answer(
        self, steps: Steps, handle: Callable[[object], object], end_turn: Callable[[], None]
    ) -> object | None:
        """Reads and handles a request. Returns the response, or None if the handler responds later.

        `end_turn` is called as soon as the request has been handled. Reading may be cancelled, handling may not: a
        change that has begun completes.
        """
        reply = await self.read_and_handle(steps, handle)
        end_turn()
        if not isinstance(reply, CoroutineType):
            return reply
        with trio.CancelScope(shield=True):
            message: object = await reply
        return message

    async def read_and_handle(self, steps: Steps, handle: Callable[[object], object]) -> object:
        """Reads a request and returns what `handle` returns. Raises RemoteProtocolError."""
        async with self._reading:
            return await self._handle_alone(steps, handle)

    async def _handle_alone(self, steps: Steps, handle: Callable[[object], object]) -> object:
        while True:
            await self.crowd.enter()
            try:
                request = _advance(steps)
                if request is not None:
                    return handle(request)
            finally:
                self.crowd.leave()


def _advance(steps: Steps) -> object | None:
    """Reads on for a moment. Returns the request if it is complete."""
    until = trio.current_time() + STEP_SECONDS
    try:
        while trio.current_time() < until:
            next(steps)
    except StopIteration as end:
        request: object = end.value[0]
        return request
    return None
