import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Never

import pytest
import trio
import trio.testing
from logs import log_at
from msgspec import Struct
from simulation.files import SimulatedFiles
from spus import batch

from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.upkeep.flusher import FLUSH_AGAIN_SECONDS, FLUSHES_AT_ONCE, Flusher
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.ids import Epoch, SpuId, TopicId

NEVER = str(2**63 - 1)
SPU = SpuId(1)
TOPIC = TopicId(int=7)


class SlowDisk(SimulatedFiles):
    """A disk whose syncs take time on Trio's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds_a_sync = 0.0
        self.syncs_under_way = 0
        self.syncs_at_once_max = 0

    async def _reach_disk(self) -> None:
        self.syncs_under_way += 1
        self.syncs_at_once_max = max(self.syncs_at_once_max, self.syncs_under_way)
        try:
            await trio.sleep(self.seconds_a_sync)
            await super()._reach_disk()
        finally:
            self.syncs_under_way -= 1


def replica_on(files: SimulatedFiles, partition: int = 0, **configs: str) -> Replica:
    settings = settings_of({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfigs({}))
    spec = PartitionSpec(TOPIC, "t", partition, SPU, Epoch(0), (SPU,), (SPU,))
    log = log_at(files, f"/data/topics/t/{TOPIC}/{partition}", settings.log, clean=True)
    return Replica(SPU, spec, log, settings, log.log_end)


def append(replica: Replica, *values: bytes) -> None:
    data = bytearray(batch(*values))
    stamp(data, 0, replica.log.log_end, replica.spec.epoch)
    replica.append(data, read_header(data))


class _Flushing(Struct):
    flusher: Flusher
    files: SlowDisk
    metrics: BrokerMetrics

    def append(self, replica: Replica, *values: bytes) -> None:
        append(replica, *values)
        self.flusher.on_appended(replica)


@asynccontextmanager
async def _flushing() -> AsyncIterator[_Flushing]:
    files, metrics, deadlines = SlowDisk(), BrokerMetrics(), Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        yield _Flushing(Flusher(nursery, deadlines, metrics), files, metrics)
        nursery.cancel_scope.cancel()


async def test_by_default_a_power_failure_takes_a_second_at_most(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files)
        on.append(replica, b"a")
        await trio.sleep(0.9)
        assert replica.log.synced_end == 0
        await trio.sleep(0.2)
        assert replica.log.synced_end == 1


async def test_a_policy_of_never_leaves_syncing_to_the_kernel(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms=NEVER, flush_bytes=NEVER)
        on.append(replica, b"a")
        await trio.sleep(10_000)
        assert replica.log.synced_end == 0
        assert replica.unsynced_since is not None
        assert on.metrics.flushes == 0


async def test_records_are_synced_after_so_many_records(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms=NEVER, flush_messages="3")
        on.append(replica, b"a", b"b")
        await trio.sleep(1)
        assert replica.log.synced_end == 0
        on.append(replica, b"c")
        await trio.sleep(1)
        assert replica.log.synced_end == 3
        assert replica.unsynced_since is None


async def test_records_are_synced_after_so_many_bytes(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms=NEVER, flush_bytes="1000")
        on.append(replica, b"x" * 500)
        await trio.sleep(1)
        assert replica.log.synced_end == 0
        on.append(replica, b"x" * 500)
        await trio.sleep(1)
        assert replica.log.synced_end == 2


async def test_records_are_synced_after_so_long(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms="1000")
        on.append(replica, b"a")
        await trio.sleep(0.9)
        on.append(replica, b"b")
        assert replica.log.synced_end == 0
        await trio.sleep(0.2)
        assert replica.log.synced_end == 2, "the clock runs from the oldest record"
        assert on.metrics.flushes == 1
        await trio.sleep(10)
        assert on.metrics.flushes == 1, "nothing was appended, so nothing is synced"


async def test_what_is_appended_during_a_sync_is_flushed_in_its_time(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms="10000")
        on.append(replica, b"a")
        await trio.sleep(11)
        on.append(replica, b"b")
        on.files.seconds_a_sync = 5
        await trio.sleep(12)
        assert on.files.syncs_under_way == 1
        on.append(replica, b"c")
        await trio.sleep(15)
        assert replica.log.synced_end == 3


async def test_a_sync_longer_than_the_time_allowed_forgets_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms="10")
        on.files.seconds_a_sync = 5
        on.append(replica, b"a")
        await trio.sleep(1)
        on.append(replica, b"b")  # its ten milliseconds end long before the sync does
        await trio.sleep(60)
        assert replica.log.synced_end == 2


async def test_a_producer_that_requires_a_sync_waits_for_it(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_messages="1")
        on.files.seconds_a_sync = 1
        on.append(replica, b"a")
        await trio.sleep(0.5)
        assert replica.high_watermark == 0
        on.append(replica, b"b")
        await trio.sleep(20)
        assert replica.high_watermark == 2


async def test_a_sealed_segment_does_not_wait_for_the_policy(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms=NEVER, segment_bytes="1048576")
        for _ in range(3):
            on.append(replica, b"x" * 600_000)
        await trio.sleep(1)
        assert replica.log.synced_end >= 2


async def test_a_failed_sync_takes_the_replica_offline_for_good(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_messages="1")
        neighbour = replica_on(on.files, partition=1, flush_messages="1")
        on.files.syncs_fail = True
        on.append(replica, b"a")
        await trio.sleep(1)
        assert replica.offline_reason is not None
        assert replica.offline_reason.startswith("sync failed: ")
        assert replica.high_watermark == 0
        on.files.syncs_fail = False
        on.flusher.flush(replica)
        await trio.sleep(1)
        assert on.metrics.flushes == 0, "a second sync could succeed without what the first one lost"
        on.append(neighbour, b"a")
        await trio.sleep(1)
        assert neighbour.high_watermark == 1


async def test_a_flush_without_a_free_descriptor_is_retried(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: str) -> Never:
        raise OSError(errno.EMFILE, "too many open files")

    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms=NEVER, flush_messages="1")
        with monkeypatch.context() as now:
            now.setattr(on.files, "sync_directory", refuse)
            on.append(replica, b"a")
            await trio.sleep(10)
            assert (replica.offline_reason, replica.log.has_failed) == (None, False)
            assert (replica.high_watermark, on.metrics.flushes) == (0, 0)
        await trio.sleep(FLUSH_AGAIN_SECONDS)
        assert (replica.high_watermark, on.metrics.flushes) == (1, 1)


async def test_a_topic_deleted_before_its_flush_does_not_count_as_a_failed_disk(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms="1000")
        on.append(replica, b"a")
        await replica.close()
        await trio.sleep(2)
        assert replica.offline_reason is None


async def test_only_a_few_logs_are_flushed_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replicas = [replica_on(on.files, partition=number, flush_messages="1") for number in range(20)]
        on.files.seconds_a_sync = 1
        for replica in replicas:
            on.append(replica, b"a")
        await trio.sleep(100)
        assert all(replica.log.synced_end == 1 for replica in replicas)
        assert on.files.syncs_at_once_max == FLUSHES_AT_ONCE


async def test_a_changed_policy_applies_to_records_that_wait_already(autojump_clock: trio.testing.MockClock) -> None:
    async with _flushing() as on:
        replica = replica_on(on.files, flush_ms=NEVER, flush_bytes=NEVER)
        on.append(replica, b"a")
        await trio.sleep(10_000)
        replica.use_settings(settings_of({"flush.ms": "1000"}, BrokerConfigs({})))
        on.flusher.on_settings(replica)
        await trio.sleep(0.1)
        assert replica.log.synced_end == 1, "it has waited longer than the new policy allows"
        on.append(replica, b"b")
        replica.use_settings(settings_of({"flush.ms": NEVER, "flush.bytes": NEVER}, BrokerConfigs({})))
        on.flusher.on_settings(replica)
        replica.use_settings(settings_of({"flush.ms": NEVER, "flush.messages": "1"}, BrokerConfigs({})))
        on.flusher.on_settings(replica)
        await trio.sleep(0.1)
        assert replica.log.synced_end == 2
