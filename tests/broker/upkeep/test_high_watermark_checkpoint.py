"""The checkpoint of high watermarks: one write for all callers, and another try after a failure."""

import errno
from types import SimpleNamespace
from uuid import UUID

import trio
import trio.testing
from simulation.files import SimulatedFiles
from structlog import get_logger

from tailrace.broker.upkeep.high_watermark_checkpoint import HighWatermarkCheckpoint
from tailrace.protocol.ids import Epoch
from tailrace.storage.directory.checkpoints import SavedHighWatermark, load_high_watermarks


class CountedReplicas(list):
    """A ReplicaRegistry that counts how often all replicas are visited."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


def checkpoint_of(replicas: CountedReplicas, disk: SimulatedFiles) -> HighWatermarkCheckpoint:
    disk.make_directories("/data")
    closed = SimpleNamespace(high_watermarks={})
    return HighWatermarkCheckpoint("/data", disk, replicas, closed, {}, get_logger())


async def test_one_write_serves_hundreds_of_callers() -> None:
    replica = SimpleNamespace(key=(UUID(int=1), 0), saved_high_watermark=SavedHighWatermark(0, Epoch(0)))
    replicas, disk = CountedReplicas([replica]), SimulatedFiles()
    checkpoint = checkpoint_of(replicas, disk)
    written = []

    async def write_down() -> None:
        value = replica.saved_high_watermark.value + 1
        replica.saved_high_watermark = SavedHighWatermark(value, Epoch(0))
        await checkpoint.write()
        written.append(load_high_watermarks(disk, "/data")[replica.key].value >= value)

    disk.sync_seconds = lambda: 0.0
    async with trio.open_nursery() as nursery:
        for _ in range(300):
            nursery.start_soon(write_down)
    assert written == [True] * 300
    assert replicas.passes <= 2


async def test_callers_that_wait_while_a_write_fails_try_again() -> None:
    replica = SimpleNamespace(key=(UUID(int=1), 0), saved_high_watermark=SavedHighWatermark(1, Epoch(0)))
    disk = SimulatedFiles()
    checkpoint = checkpoint_of(CountedReplicas([replica]), disk)
    replace_all, refused, outcomes = disk.replace, [OSError(errno.ENOSPC, "no room for it")], []

    async def replace_later(path: str, content: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if refused:
            raise refused.pop()
        await replace_all(path, content)

    disk.replace = replace_later

    async def write_down() -> None:
        try:
            await checkpoint.write()
            outcomes.append(load_high_watermarks(disk, "/data")[replica.key].value)
        except OSError as error:
            outcomes.append(error.errno)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(write_down)
    assert sorted(outcomes) == [1, 1, errno.ENOSPC]


async def test_a_new_spu_has_a_file_before_it_has_a_replica(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimulatedFiles()
    disk.sync_seconds = lambda: 0.0
    with trio.move_on_after(0.1):
        await checkpoint_of(CountedReplicas(), disk).run()
    assert load_high_watermarks(disk, "/data") == {}
    assert disk.exists("/data/high-watermarks")
