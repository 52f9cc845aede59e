"""A whole SPU with transactions that are made by real requests, and calls of `tailrace transaction`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct
from spus import SC_PUBLIC, RunningSpu, SteadyClock, running_spu
from structlog.testing import capture_logs
from transaction_clients import TransactionalProducer, find_coordinator, transacting
from trio.testing import wait_all_tasks_blocked

from tailrace.cli.main import parse
from tailrace.cli.transactions import transaction_commands
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC


class TransactingSpu(Struct):
    """The topic "t" has two partitions, and the producer has the transactional id "id"."""

    running: RunningSpu
    producer: TransactionalProducer

    @property
    def clock(self) -> SteadyClock:
        return self.running.world.clock

    async def tailrace(self, name: str, *words: str) -> int:
        """Returns the exit status of `tailrace transaction`, which finds the SPU through the SC."""
        commands = transaction_commands.commands(self.clock)
        arguments = parse(["transaction", name, *words, "--sc", str(SC_PUBLIC)])
        return await commands[name].execute(arguments, self.running.world.network)

    async def make_hang(self) -> None:
        """Makes the open transaction of the producer hang: its coordinator forgets everything."""
        await self.running.delete(self.running.spu.cluster.topics[TRANSACTIONS_TOPIC])
        await find_coordinator(self.producer.client, self.producer.transactional_id)
        await wait_all_tasks_blocked()  # until the new coordinators are loaded


@asynccontextmanager
async def transacting_spu(timeout_ms: int = 60_000) -> AsyncIterator[TransactingSpu]:
    # Only the command prints.
    with capture_logs():
        async with running_spu() as running:
            yield TransactingSpu(running, await transacting(running, timeout_ms=timeout_ms))
