"""What a replica needs of its workers: an interface, so that a simulation brings workers of its own."""

from collections.abc import Sequence
from typing import Protocol

from tailrace.trigger.work import Chunk, Outcome, Settled, Shard


class Workers(Protocol):
    """Workers that handle chunks of records."""

    @property
    def size(self) -> int:
        """How many workers there are at most, and so how many events are handled at once."""

    @property
    def busy(self) -> int:
        """How many workers have something to handle."""

    async def handle(self, chunk: Chunk) -> Outcome:
        """Waits for a free worker, and returns what became of the chunk. Chunks are served in the order of the calls.

        Waits as long as the lease is over. After `stop` the outcome says that nothing was handled. If the caller is
        cancelled, the worker takes no further event of the chunk.
        """

    async def next_settled(self) -> Sequence[Settled]:
        """Waits until open events were acknowledged, or lost with their worker, and returns all of them so far.

        An event is reported here only after `handle` has returned the outcome that opened it.
        """

    async def abandon(self, shard: Shard) -> None:
        """Ends the workers that have open events of the shard, or still run an event after the caller of `handle` was
        cancelled. The replica has given the shard up before. Open events of other shards are settled as lost."""

    def set_lease(self, until: float) -> None:
        """Allows workers to handle events up to this time of `trio.current_time()`. Then running events are ended, and
        they count as not handled."""

    async def stop(self, seconds: float) -> None:
        """Lets running events end, at most for this time, and then ends all workers."""
