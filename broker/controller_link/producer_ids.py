"""Allocates producer ids from blocks of ids that the Streaming Controller gives to this SPU.

A reserve block is fetched before it is needed, so that new producers can start while the controller is unreachable.
"""

from collections.abc import Awaitable, Callable

import trio

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import ProducerId
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

from .sc_connection import Ask, ScUnreachableError

WAIT_SECONDS_MAX = 5.0
"""How long a request waits for an id. The producer retries, and its connection can do other work meanwhile."""
RETRY_SECONDS = 1.0
"""How long to wait before a failed allocation is retried."""


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._left = range(0)
        self._reserve = range(0)
        self._reserve_used = trio.Event()
        self._allocating = trio.Lock()

    async def next(self) -> ProducerId:
        """Returns an id that no producer had before. The rest of a block is lost when the SPU stops.

        Raises KafkaError, with the code after which Kafka's clients retry, if there is no id at the moment.
        """
        try:
            with trio.fail_after(WAIT_SECONDS_MAX):
                return await self._next()
        except (trio.TooSlowError, ScUnreachableError) as error:
            reason = "no producer id is left, and the Streaming Controller cannot be reached"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason) from error

    async def keep_reserve(self) -> None:
        """Keeps a block in reserve until cancelled. Retries while the controller is unreachable."""
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
    """Allocates a block of ids that no other SPU gets."""
    response: AllocateProducerIdsResponse = await ask(AllocateProducerIdsRequest())
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, response.error_message or "")
    return range(response.first_id, response.first_id + response.count)
