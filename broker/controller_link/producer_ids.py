"""The producer ids of this SPU: whole blocks come from the Streaming Controller, single ids go to producers.

A block is in reserve before a producer asks: new producers begin also while the controller is away.
"""

from collections.abc import Awaitable, Callable

import trio

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import ProducerId
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

from .sc_connection import Ask, ScUnreachableError

WAIT_SECONDS_MAX = 5.0
"""A producer asks again; meanwhile its connection may have other things to do."""
RETRY_SECONDS = 1.0


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._left = range(0)
        self._reserve = range(0)
        self._reserve_used = trio.Event()
        self._allocating = trio.Lock()

    async def next(self) -> ProducerId:
        """An id that no producer had before. What is left of a block when the SPU stops is never used.

        Raises KafkaError when there is none to be had now: the one that Kafka's clients come back after.
        """
        try:
            with trio.fail_after(WAIT_SECONDS_MAX):
                return await self._next()
        except (trio.TooSlowError, ScUnreachableError) as error:
            reason = "there is no producer id: the Streaming Controller cannot be reached"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason) from error

    async def keep_reserve(self) -> None:
        """Until cancelled. While the controller is away, asks again and again."""
        while True:
            if not self._reserve:
                try:
                    async with self._allocating:
                        self._reserve = await self._allocate()
                except (KafkaError, ScUnreachableError):
                    await trio.sleep(RETRY_SECONDS)
                    continue
            await self._reserve_used.wait()
            self._reserve_used = trio.Event()

    async def _next(self) -> ProducerId:
        while not self._left:
            if self._reserve:
                self._left, self._reserve = self._reserve, range(0)
                self._reserve_used.set()
                continue
            async with self._allocating:
                if not self._left and not self._reserve:
                    self._left = await self._allocate()
        producer_id, self._left = self._left[0], self._left[1:]
        return ProducerId(producer_id)


async def allocate_from(ask: Ask) -> range:
    """A block that no other SPU has or will get."""
    answer: AllocateProducerIdsResponse = await ask(AllocateProducerIdsRequest())
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, answer.error_message or "")
    return range(answer.first_id, answer.first_id + answer.count)
