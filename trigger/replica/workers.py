"""What a replica needs of its workers. Production has a pool of processes; simulations have workers of their own."""

from typing import Protocol

import trio

from tailrace.trigger.work import Chunk, Outcome


class Workers(Protocol):
    """Handles chunks with the user's function."""

    @property
    def size(self) -> int:
        """How many workers there should be."""

    @property
    def busy(self) -> int:
        """How many workers handle a chunk at this moment."""

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Owns the workers. Reports the start when the first worker can handle chunks, and runs until cancelled."""

    async def handle(self, chunk: Chunk) -> Outcome:
        """Waits for a free worker, has it handle the chunk, and returns what became of it."""

    def set_lease(self, until: float) -> None:
        """Lets workers handle events until this moment of Trio's clock. Later ones are refused and running ones end."""

    async def stop(self, seconds: float) -> None:
        """Lets running events end for some time, and then ends the workers. Chunks that they have get an outcome."""
