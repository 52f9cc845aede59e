"""A complete SPU, and the commands `tailrace produce` and `tailrace consume`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct
from spus import ADDRESS, RunningSpu, running_spu
from structlog.testing import capture_logs

from tailrace.broker.replicas.replica import Replica
from tailrace.cli.main import parse
from tailrace.cli.records.consuming import consume_command as consume
from tailrace.cli.records.consuming.record_output import WriteOutput
from tailrace.cli.records.producing import produce_command as produce
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.process import write_output

PIECE_BYTES = 7
"""The size of the pieces in which standard input arrives, so that lines are split anywhere."""


class RecordCommands(Struct):
    running: RunningSpu
    input_ends_with: OSError | None = None

    def replica(self, number: int = 0) -> Replica:
        return self.running.spu.replicas.leading("orders", number)

    async def produce(self, text: str | bytes, *words: str, at_once: int = PIECE_BYTES) -> int:
        """Runs `tailrace produce` with this standard input; returns the exit status."""
        data = text.encode() if isinstance(text, str) else text
        pieces = [data[start : start + at_once] for start in range(0, len(data), at_once)]

        async def read(count: int) -> bytes:
            if not pieces and self.input_ends_with is not None:
                raise self.input_ends_with
            return pieces.pop(0) if pieces else b""

        command = produce.commands(read, self.running.world.clock, RandomChance(0))["produce"]
        return await command.execute(parse(["produce", *words, *_where(words)]), self.running.world.network)

    async def consume(self, *words: str, write: WriteOutput = write_output) -> int:
        command = consume.commands(self.running.world.clock, write)["consume"]
        return await command.execute(parse(["consume", *words, *_where(words)]), self.running.world.network)


def _where(words: tuple[str, ...]) -> tuple[str, ...]:
    return () if "--bootstrap" in words else ("--bootstrap", str(ADDRESS))


@asynccontextmanager
async def record_commands(
    partitions: int = 1, configs: Mapping[str, str | None] | None = None
) -> AsyncIterator[RecordCommands]:
    """Yields an SPU with a topic `orders`."""
    # What is printed is the command's alone.
    with capture_logs():
        async with running_spu() as running:
            await running.create("orders", partitions, configs)
            yield RecordCommands(running)
