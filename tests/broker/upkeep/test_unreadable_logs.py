"""The repair of logs that did not open, when other SPUs have the records, or do not have them yet."""

from collections.abc import Callable

import pytest
import trio
import trio.testing
from batch_samples import header_of, make_batch
from logs import log_at
from msgspec import Struct, field
from simulation.files import SimulatedFiles
from spus import lack_open_files

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.unreadable_logs import PAUSE_SECONDS_MAX, UnreadableLogs
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.log.log import Log

HERE, THERE = SpuId(1), SpuId(2)
KEY = TopicId(int=7), 0
BATCH_BYTES, MAGIC_AT = 100, 16


class _Bench(Struct):
    """A log of nine batches, and the circumstances of its repair."""

    nursery: trio.Nursery
    files: SimulatedFiles
    closed: ClosedReplicas
    replica: Replica
    unreadable: UnreadableLogs
    asked: list[tuple[float, int]] = field(default_factory=list)
    """The time and the offset of each repair."""
    readable: list[ReplicaKey] = field(default_factory=list)
    let_go: list[Log] = field(default_factory=list)
    can_repair: Callable[[int], bool] = lambda offset: True
    """Whether other SPUs have the batch at an offset."""
    open_again: Callable[[ReplicaKey], None] = lambda key: None
    """Called when the log is readable."""
    cuts: bool = False
    """Whether no other store can have the tail, so that it is truncated."""

    def damage(self, *offsets: int) -> None:
        for offset in offsets:
            self._set_magic(offset, b"\x07")

    def _set_magic(self, offset: int, magic: bytes) -> None:
        (file,) = (name for name in self.files.names(self.replica.log.directory) if name.endswith(".log"))
        path = f"{self.replica.log.directory}/{file}"
        self.files.open(path).write_at(offset * BATCH_BYTES + MAGIC_AT, magic)

    async def repair(self, replica: Replica, offset: int) -> bool:
        """Repairs the next damaged batch."""
        assert replica is self.replica
        self.asked.append((trio.current_time(), offset))
        await trio.lowlevel.checkpoint()
        if self.cuts:
            await replica.log.truncate_fully(0)
        elif self.can_repair(offset + 1):
            self._set_magic(offset + 1, b"\x02")
        return self.cuts

    async def on_readable(self, key: ReplicaKey) -> None:
        assert self.replica.log.has_failed, "it is closed"
        self.readable.append(key)
        self.open_again(key)


class _Owner:
    """A log owner that reports to the bench."""

    def __init__(self, made: list[_Bench]) -> None:
        self._made = made

    async def on_readable(self, key: ReplicaKey) -> None:
        await self._made[0].on_readable(key)

    async def on_unreadable(self, replica: Replica) -> None:
        raise AssertionError("no replica is in use")

    def on_log_closed(self, log: Log) -> None:
        self._made[0].let_go.append(log)


@pytest.fixture
async def bench(nursery: trio.Nursery) -> _Bench:
    files, closed = SimulatedFiles(), ClosedReplicas()
    files.make_directories("/data")
    settings = settings_of({}, BrokerConfigs({}))
    log = log_at(files, "/data/topics/t/7/0", settings.log, clean=True)
    for number in range(9):
        batch = make_batch(number, size=BATCH_BYTES, epoch=5)
        log.append(batch, header_of(batch))
    spec = PartitionSpec(*KEY[:1], "t", 0, HERE, Epoch(5), (HERE, THERE), (HERE, THERE))
    replica = Replica(HERE, spec, log, settings, 1)
    made: list[_Bench] = []

    async def repair(replica: Replica, offset: int) -> bool:
        return await made[0].repair(replica, offset)

    owner = _Owner(made)
    made.append(_Bench(nursery, files, closed, replica, UnreadableLogs(nursery, repair, closed, owner)))
    return made[0]


async def test_a_log_is_opened_when_all_damage_is_repaired(
    bench: _Bench, autojump_clock: trio.testing.MockClock
) -> None:
    bench.damage(3, 6)
    bench.unreadable.add(bench.replica, 2, was_clean=False)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.asked == [(0, 2), (0, 5)], "there is no pause after a successful repair"
    assert bench.readable == [KEY]
    assert bench.closed.clean == set()


async def test_the_repair_is_retried_with_growing_pauses(bench: _Bench, autojump_clock: trio.testing.MockClock) -> None:
    bench.damage(3)
    bench.can_repair = lambda offset: trio.current_time() > 200
    bench.unreadable.add(bench.replica, 2, was_clean=True)
    await trio.sleep(200)
    times = [at for at, _ in bench.asked]
    assert times[:5] == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert times[-1] - times[-2] == PAUSE_SECONDS_MAX
    assert bench.readable == []
    await trio.sleep(PAUSE_SECONDS_MAX)
    assert bench.readable == [KEY]
    assert bench.closed.clean == {KEY}


async def test_a_truncated_log_does_not_count_as_clean(bench: _Bench, autojump_clock: trio.testing.MockClock) -> None:
    bench.damage(3)
    bench.cuts = True
    bench.unreadable.add(bench.replica, 2, was_clean=True)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.readable == [KEY]
    assert bench.closed.clean == set()


async def test_a_log_that_is_given_back_is_closed_and_left_alone(
    bench: _Bench, autojump_clock: trio.testing.MockClock
) -> None:
    bench.damage(3)
    bench.can_repair = lambda offset: False
    bench.unreadable.add(bench.replica, 2, was_clean=True)
    await trio.testing.wait_all_tasks_blocked()
    await bench.unreadable.give_back((KEY[0], 1))
    assert not bench.replica.log.has_failed, "another one was meant"
    await bench.unreadable.give_back(KEY)
    assert bench.replica.log.has_failed
    assert bench.closed.clean == {KEY}, "nothing has changed the log"
    await bench.unreadable.give_back(KEY)
    await trio.sleep(100)
    assert len(bench.asked) == 1
    assert bench.readable == []


async def test_a_log_that_becomes_unreadable_repeatedly_is_opened_with_growing_pauses(
    bench: _Bench, autojump_clock: trio.testing.MockClock
) -> None:
    """The repair cannot find what makes the log unreadable."""
    begun: list[float] = []

    def open_again(key: ReplicaKey) -> None:
        begun.append(trio.current_time())
        log = log_at(bench.files, bench.replica.log.directory, bench.replica.settings.log, clean=False)
        bench.replica = Replica(HERE, bench.replica.spec, log, bench.replica.settings, 1)
        bench.unreadable.add(bench.replica, 1, was_clean=False)

    bench.open_again = open_again
    bench.unreadable.add(bench.replica, 1, was_clean=False)
    await trio.sleep(300)
    assert begun[:4] == pytest.approx([0, 0.1, 0.3, 0.7])
    assert begun[-1] - begun[-2] == PAUSE_SECONDS_MAX


async def test_a_log_whose_disk_fails_is_given_up(bench: _Bench, autojump_clock: trio.testing.MockClock) -> None:
    bench.damage(3)

    def fail(offset: int) -> bool:
        bench.files.reads_fail = True
        return True

    bench.can_repair = fail
    bench.unreadable.add(bench.replica, 2, was_clean=False)
    await trio.sleep(100)
    assert len(bench.asked) == 1
    assert bench.readable == []
    assert bench.replica.log.has_failed


async def test_a_repair_without_a_free_descriptor_is_retried(
    bench: _Bench, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as now:
        now.setattr(Log, "headers", lack_open_files)
        bench.unreadable.add(bench.replica, 2, was_clean=False)
        await trio.sleep(3)
        assert bench.let_go == []
    await trio.sleep(PAUSE_SECONDS_MAX)
    assert bench.readable == [KEY]
    assert bench.let_go == [bench.replica.log]
