"""Pools of real worker processes for tests, and chunks for them."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import trio

from tailrace.protocol.batches.records import Record, build_batch
from tailrace.runtime import logs
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource, source_of
from tailrace.trigger.pool.worker_pool import WorkerPool
from tailrace.trigger.work import Chunk, Shard

FOREVER = float("inf")


def batch_of(*bodies: str | bytes, first: int = 0) -> bytes:
    records = [
        Record(offset, 1_700_000_000_000, None, body.encode() if isinstance(body, str) else body)
        for offset, body in enumerate(bodies, first)
    ]
    return bytes(build_batch(records, base_offset=first))


def chunk_of(*bodies: str | bytes, first: int = 0, shard: int = 0, batch_size: int = 0, attempt: int = 1) -> Chunk:
    """A chunk of one batch, whose records have these values."""
    return Chunk(
        Shard("orders", shard),
        [batch_of(*bodies, first=first)],
        first,
        first + len(bodies),
        batch_size=batch_size,
        attempt=attempt,
    )


def function_in(directory: Path, text: str) -> FunctionSource:
    path = directory / "billing.py"
    path.write_text(dedent(text))
    return source_of(str(path))


def config_of(**values: object) -> TriggerConfig:
    return TriggerConfig(name="billing", topic="orders", group="billing", **values)  # type: ignore[arg-type]


class Signals:
    """A named pipe through which handlers say what they are doing, a letter at a time."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "signals"
        os.mkfifo(self.path)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    async def next(self) -> str:
        await trio.lowlevel.wait_readable(self._descriptor)
        return os.read(self._descriptor, 1).decode()

    def so_far(self) -> str:
        try:
            return os.read(self._descriptor, 4096).decode()
        except BlockingIOError:
            return ""

    def close(self) -> None:
        os.close(self._descriptor)


def pool_of(source: FunctionSource, size: int = 1, **config: object) -> WorkerPool:
    return WorkerPool(source, config_of(**config), size, logs.get_logger(), RandomChance(1))


@asynccontextmanager
async def running_pool(
    source: FunctionSource, *, size: int = 1, lease: float = FOREVER, **config: object
) -> AsyncIterator[WorkerPool]:
    """A pool whose workers run for the time of the block."""
    pool = pool_of(source, size, **config)
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        pool.set_lease(trio.current_time() + lease)
        with trio.fail_after(50):
            yield pool
        nursery.cancel_scope.cancel()
