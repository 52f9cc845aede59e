import errno
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

import pytest
import structlog
import trio
import trio.testing
from msgspec import Struct
from msgspec.structs import replace
from replicating import replication_on
from simulation.files import SimulatedFiles
from spus import SteadyClock, batch, lack_open_files
from structlog.testing import capture_logs

from tailrace.broker.controller_link import spec_dispatcher
from tailrace.broker.controller_link.held_specs import HeldSpecs, HeldTopic
from tailrace.broker.controller_link.live_replica_reports import LiveReplicasUpdater
from tailrace.broker.controller_link.spec_dispatcher import CLOSES_AT_ONCE, SpecDispatcher
from tailrace.broker.replicas import replica_log
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import DamagedLogError, ReplicaLog
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.flusher import Flusher
from tailrace.broker.upkeep.parking import Parking, Storage
from tailrace.broker.upkeep.unreadable_logs import PAUSE_SECONDS_MAX
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import read_header, stamp
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId, TopicId
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasRequest, ReportLiveReplicasResponse
from tailrace.runtime.files import File
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    SavedHighWatermark,
    load_high_watermarks,
    save_high_watermarks,
)
from tailrace.storage.directory.promises import Promises
from tailrace.storage.log.log import Log

HERE, ELSEWHERE = SpuId(1), SpuId(2)
TOPIC, OTHER = TopicId(int=1), TopicId(int=2)


def _topic(
    topic_id: TopicId = TOPIC,
    name: str = "t",
    partitions: Sequence[int] = (0,),
    *,
    epoch: int = 0,
    leader: SpuId = HERE,
    live: tuple[SpuId, ...] = (HERE,),
    configs: Mapping[str, str] | None = None,
) -> HeldTopic:
    replicas = (HERE,) if (leader, live) == (HERE, (HERE,)) else (HERE, ELSEWHERE)
    specs = tuple(PartitionSpec(topic_id, name, number, leader, Epoch(epoch), replicas, live) for number in partitions)
    return HeldTopic(topic_id, name, configs or {}, specs)


def _full(*topics: HeldTopic, **configs: str) -> HeldSpecs:
    return HeldSpecs(True, topics, default_configs={name.replace("_", "."): value for name, value in configs.items()})


@dataclass
class _Spu:
    """What a dispatcher works on; another one on the same files is a restart."""

    nursery: trio.Nursery
    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    clean: bool = True
    """Whether each log was closed that may be there."""

    def __post_init__(self) -> None:
        logger = structlog.get_logger()
        self.closed = ClosedReplicas()
        self.closed.whole = {(topic_id, number) for topic_id in (TOPIC, OTHER) for number in range(3) if self.clean}
        self.replicas = ReplicaRegistry(HERE, Cluster())
        self.metrics = BrokerMetrics()
        self.broker_configs = BrokerConfigs({})
        self.files.make_directories("/data")
        self.promises = Promises(self.files, "/data")
        self.closed.high_watermarks = load_high_watermarks(self.files, "/data")
        self.parking = Parking("/data", self.files, SteadyClock())
        self.live_replicas = LiveReplicasUpdater(self.replicas, self.metrics, logger)
        self.dispatcher = SpecDispatcher(
            HERE,
            "/data",
            self.files,
            self.replicas,
            self.parking,
            self.broker_configs,
            Flusher(self.nursery, Deadlines(), self.metrics),
            self.metrics,
            replication_on(HERE, self.files, self.replicas, self.nursery, self.promises, self.live_replicas),
            self.closed,
            self.nursery,
            lambda replica, offset: self.mend(replica, offset),
            logger,
            lambda specs, removed, *, is_full: self.hear(specs, removed, is_full=is_full),
        )

    async def remove_parked(self) -> list[Storage]:
        async def forget(removed: Storage) -> None:
            self.dispatcher.forget(removed)

        return await self.parking.remove_expired(-1, forget)

    def hear(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        """Ignores the shelves that the specs name, unless a test replaces this."""

    async def mend(self, replica: Replica, offset: int) -> bool:
        """Nobody has a copy, unless a test says how."""
        await trio.lowlevel.checkpoint()
        return False

    def again(self, files: SimulatedFiles | None = None, *, clean: bool = True) -> "_Spu":
        return _Spu(self.nursery, files or self.files, clean)

    async def apply(self, *topics: HeldTopic) -> list[Replica]:
        """All that there is; the replicas that run then."""
        await self.dispatcher.apply(_full(*topics))
        return list(self.replicas)

    async def change(self, *topics: HeldTopic, removed: tuple[tuple[TopicId, int], ...] = ()) -> list[Replica]:
        """The replicas that run after a change."""
        await self.dispatcher.apply(HeldSpecs(False, topics, removed))
        return list(self.replicas)


@pytest.fixture
async def spu(nursery: trio.Nursery) -> _Spu:
    return _Spu(nursery)


def _append(replica: Replica, *values: bytes, **attributes: int) -> None:
    data = bytearray(batch(*values, **attributes))
    stamp(data, 0, replica.log.log_end, replica.spec.epoch)
    replica.append(data, read_header(data))


DISK_FAILS = OSError("the disk does not answer")


def _fail_for(
    monkeypatch: pytest.MonkeyPatch, files: SimulatedFiles, call: str, path: str, error: OSError = DISK_FAILS
) -> list[str]:
    """That fails for one path; grows with each attempt."""
    real = getattr(files, call)
    tried = []

    def fail(asked: str) -> object:
        if asked == path:
            tried.append(asked)
            raise error
        return real(asked)

    monkeypatch.setattr(files, call, fail)
    return tried


async def test_replicas_that_belong_here_run_after_the_call(spu: _Spu) -> None:
    made = await spu.apply(_topic(partitions=(0, 2)), _topic(OTHER, "other"))
    assert [(replica.topic, replica.partition) for replica in made] == [("t", 0), ("t", 2), ("other", 0)]
    assert spu.files.list(f"/data/topics/t/{TOPIC}") == ["0", "2"]


async def test_an_election_reaches_the_replica_that_runs(spu: _Spu) -> None:
    (before,) = await spu.apply(_topic())
    _append(before, b"a")
    (after,) = await spu.change(_topic(epoch=7))
    assert after is before
    _append(after, b"b")
    assert list(after.log.epochs) == [(0, 0), (7, 1)]
    (follower,) = await spu.change(_topic(epoch=8, leader=ELSEWHERE))
    assert not follower.is_leader


async def test_a_message_from_the_past_changes_nothing(spu: _Spu) -> None:
    await spu.apply(_topic(epoch=7))
    (replica,) = await spu.apply(_topic(epoch=6, leader=ELSEWHERE))
    assert (replica.is_leader, replica.spec.epoch) == (True, 7)


async def test_a_topics_configs_reach_all_its_replicas_also_those_that_are_not_named(spu: _Spu) -> None:
    await spu.apply(_topic(partitions=(0, 1)))
    replicas = await spu.change(_topic(partitions=(1,), configs={"flush.messages": "1", "segment.bytes": "2097152"}))
    assert [replica.syncs_before_acknowledging for replica in replicas] == [True, True]
    assert [replica.log.config.segment_bytes_max for replica in replicas] == [2097152, 2097152]


async def test_broker_configs_reach_topics_that_set_nothing_themselves(spu: _Spu) -> None:
    await spu.apply(_topic(), _topic(OTHER, "other", configs={"flush.messages": "5"}))
    specs = HeldSpecs(False, default_configs={"log.flush.interval.messages": "1", "num.partitions": "3"})
    await spu.dispatcher.apply(specs)
    plain, own = spu.replicas
    assert (plain.settings.log.flush_messages, own.settings.log.flush_messages) == (1, 5)
    assert spu.broker_configs.settings.partitions_default == 3
    await spu.dispatcher.apply(HeldSpecs(False))
    assert spu.broker_configs.settings.partitions_default == 1, "what is named no more has no value any more"
    assert plain.settings.log.flush_messages > 1


async def test_what_the_configs_drop_together_with_a_topic_is_not_opened_again(spu: _Spu) -> None:
    await spu.apply(_topic(), _topic(OTHER, "other"))
    await spu.dispatcher.apply(_full(_topic(OTHER, "other"), num_partitions="3"))
    assert [replica.topic for replica in spu.replicas] == ["other"]


async def test_configs_that_make_no_sense_are_refused_and_the_rest_is_done(spu: _Spu) -> None:
    with pytest.raises(KafkaError, match=r"retention\.ms"):
        await spu.apply(_topic(configs={"retention.ms": "soon"}), _topic(OTHER, "other"))
    assert [replica.topic for replica in spu.replicas] == ["other"]
    with pytest.raises(KafkaError, match=r"num\.partitions"):
        await spu.dispatcher.apply(_full(_topic(), num_partitions="many"))
    assert [replica.topic for replica in spu.replicas] == ["t"]
    assert spu.broker_configs.settings.partitions_default == 1


async def test_partitions_are_added_to_a_topic_that_runs(spu: _Spu) -> None:
    (first,) = await spu.apply(_topic())
    assert (await spu.change(_topic(partitions=(4,))))[0] is first
    assert [replica.partition for replica in spu.replicas] == [0, 4]


async def test_what_is_not_in_the_whole_stops_and_is_parked(spu: _Spu) -> None:
    for replica in await spu.apply(_topic(partitions=(0, 1)), _topic(OTHER, "other")):
        _append(replica, b"a")
    replicas = await spu.apply(_topic(partitions=(1,)))
    assert [(replica.topic, replica.partition) for replica in replicas] == [("t", 1)]
    assert spu.files.exists(layout.parked_path("/data", "other", OTHER))
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC)), "a part of it is here"
    assert spu.files.exists(layout.parked_path("/data", "t", TOPIC, 0))
    await spu.apply(_topic(partitions=(0, 1)))
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC, 0))


async def test_what_was_moved_and_is_gone_begins_with_nothing_when_it_is_given_back(spu: _Spu) -> None:
    both = (HERE, ELSEWHERE)
    before, _ = await spu.apply(_topic(partitions=(0, 1), leader=ELSEWHERE, live=both))
    await trio.testing.wait_all_tasks_blocked()
    _append(before, b"a")
    promises = spu.promises
    assert promises.epoch((TOPIC, 0)) == 0
    await spu.apply(_topic(partitions=(1,), leader=ELSEWHERE, live=both))
    assert await spu.remove_parked() == [Storage("t", TOPIC, 0)]
    assert promises.epoch((TOPIC, 0)) == NO_EPOCH
    assert promises.epoch((TOPIC, 1)) == 0
    assert len(await spu.apply(_topic(partitions=(0, 1), leader=ELSEWHERE, live=both))) == 1
    assert "was removed" in spu.replicas.damaged[TOPIC, 0].reason, "it is said to have all that was acknowledged"
    _, after = await spu.apply(_topic(partitions=(0, 1), leader=ELSEWHERE, live=(ELSEWHERE,)))
    assert not spu.replicas.damaged
    await trio.testing.wait_all_tasks_blocked()
    assert (after.log.log_end, after.high_watermark) == (0, 0)
    assert promises.is_in_doubt((TOPIC, 0))


async def test_what_was_removed_is_in_doubt_though_it_is_known_what_it_promised(spu: _Spu) -> None:
    live = _topic(leader=ELSEWHERE, live=(HERE, ELSEWHERE))
    (before,) = await spu.apply(live)
    await trio.testing.wait_all_tasks_blocked()
    _append(before, b"a")
    await spu.promises.end_doubt(before.key)
    await spu.apply()
    await spu.remove_parked()
    again = spu.again()  # its promises have not been written anew
    assert again.promises.epoch((TOPIC, 0)) == 0
    (after,) = await again.apply(_topic(leader=ELSEWHERE, live=(ELSEWHERE,)))
    assert (after.log.log_end, again.promises.is_in_doubt(after.key)) == (0, True)


async def test_a_removed_topic_stops_tells_who_waits_and_parks_its_files(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    refused: list[KafkaError] = []

    class Waiter(Struct):
        def on_acknowledged(self) -> None:
            raise AssertionError

        def on_refused(self, error: KafkaError) -> None:
            refused.append(error)

    replica.wait_until_committed(9, Waiter())
    assert await spu.change(removed=((TOPIC, 0), (OTHER, 3))) == []
    assert [error.code for error in refused] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not replica.is_open
    assert spu.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_what_belongs_here_and_cannot_be_applied_is_not_parked(spu: _Spu) -> None:
    """Another version may have written its configs; its records are not to go with time."""
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    await replica.close()
    again = spu.again()
    nonsense = _topic(configs={"retention.ms": "soon"})
    for was_parked in (False, True):
        if was_parked:
            await again.parking.park(Storage("t", TOPIC))
        with pytest.raises(KafkaError):
            await again.apply(nonsense)
        assert await again.remove_parked() == []
    (found,) = await again.apply(_topic())
    assert found.log.log_end == 1


async def test_a_marker_that_cannot_be_removed_keeps_the_replica_away(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would be removed under whoever uses them."""
    replica, _ = await spu.apply(_topic(partitions=(0, 1)))
    _append(replica, b"a")
    await spu.apply(_topic(partitions=(1,)))
    with monkeypatch.context() as now:
        _fail_for(now, spu.files, "remove", layout.parked_path("/data", "t", TOPIC, 0))
        assert [each.partition for each in await spu.apply(_topic(partitions=(0, 1)))] == [1]
    assert spu.replicas.damaged[TOPIC, 0].reason == "the disk does not answer"
    assert [each.partition for each in await spu.apply(_topic(partitions=(0, 1), epoch=1))] == [1, 0]


async def test_a_topics_marker_that_cannot_be_removed_keeps_the_topic_away_and_no_other(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    await spu.apply()
    marker = layout.parked_path("/data", "t", TOPIC)
    with monkeypatch.context() as now:
        _fail_for(now, spu.files, "remove", marker)
        assert [each.topic for each in await spu.apply(_topic(partitions=(0, 1)), _topic(OTHER, "other"))] == ["other"]
    assert spu.replicas.damaged.keys() == {(TOPIC, 0), (TOPIC, 1)}
    assert len(await spu.change(_topic(partitions=(0, 1), epoch=1))) == 3
    assert not spu.files.exists(marker)


async def test_a_log_that_does_not_close_holds_up_nothing(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    spu.files.syncs_fail = True
    assert await spu.change(removed=((TOPIC, 0),)) == []


async def test_a_topic_of_many_partitions_goes_as_fast_as_one_of_a_single_one(
    autojump_clock: object, spu: _Spu
) -> None:
    """All other specs wait meanwhile."""
    for replica in await spu.apply(_topic(partitions=range(CLOSES_AT_ONCE)), _topic(OTHER, "single")):
        _append(replica, b"a")
        await replica.log.sync()
        _append(replica, b"b")
    spu.files.sync_seconds = lambda: 1.0
    took = []
    for left in ([_topic(partitions=range(CLOSES_AT_ONCE))], []):
        since = trio.current_time()
        await spu.apply(*left)
        took.append(trio.current_time() - since)
    assert took[0] == took[1] > 0
    assert {(TOPIC, number) for number in range(CLOSES_AT_ONCE)} <= spu.closed.whole


async def test_the_same_topic_again_finds_its_records_and_another_of_its_name_starts_empty(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a", b"b")
    (namesake,) = await spu.change(_topic(OTHER), removed=((TOPIC, 0),))
    assert namesake.log.log_end == 0
    (again,) = await spu.apply(_topic(epoch=1))
    assert again.log.log_end == again.high_watermark == 2
    assert spu.replicas.find("t", 0) is again
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_what_belongs_to_no_topic_is_parked_once_all_are_known(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic(OTHER, "forgotten"))
    await replica.close()
    again = spu.again()
    await again.change(_topic())
    assert not again.dispatcher.has_applied_all
    assert not again.files.exists(layout.parked_path("/data", "forgotten", OTHER))
    await again.apply(_topic())
    assert again.dispatcher.has_applied_all
    assert again.files.exists(layout.parked_path("/data", "forgotten", OTHER))
    assert not again.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_what_belongs_to_no_topic_and_cannot_be_parked_holds_up_nothing(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(_topic(OTHER, "forgotten"))
    await replica.close()
    again = spu.again()
    _fail_for(monkeypatch, again.files, "list", layout.topic_directory("/data", "forgotten", OTHER))
    assert [each.topic for each in await again.apply(_topic())] == ["t"]
    assert again.dispatcher.has_applied_all


async def test_after_an_unclean_stop_logs_are_examined_and_counted(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    await replica.log.sync()
    whole = replica.log.size_bytes
    log = spu.files.open(f"{replica.log.directory}/{0:020d}.log")
    log.append(bytes(batch(b"torn"))[:20])
    again = spu.again(spu.files.crash("all"), clean=False)
    (recovered,) = await again.apply(_topic())
    assert (recovered.log.log_end, recovered.log.size_bytes) == (1, whole)
    assert again.metrics.recovered_replicas == 1
    assert again.metrics.truncated_bytes == 20


async def test_an_index_that_is_lost_after_a_clean_stop_is_built_again_and_counted(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    for _ in range(50):  # 4096 bytes of log have an index entry
        _append(replica, bytes(200))
    await replica.close()
    again = spu.again(spu.files, clean=False)
    again.closed.whole.add((TOPIC, 0))
    spu.files.remove(f"{replica.log.directory}/{0:020d}.index")
    (reopened,) = await again.apply(_topic())
    assert again.metrics.rebuilt_indexes == 0
    with capture_logs() as logs:
        found = reopened.log.read(30, 1, 50, at_least_one=True)
    assert found is not None
    assert read_header(found.read()).base_offset == 30
    assert again.metrics.rebuilt_indexes == 1
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("index_rebuilt", "warning")
    assert line["path"] == f"{replica.log.directory}/{0:020d}.index"


async def test_what_an_unclean_stop_left_in_the_page_cache_reaches_the_disk(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    (recovered,) = await spu.again(spu.files.crash("all"), clean=False).apply(_topic())
    await trio.testing.wait_all_tasks_blocked()
    assert recovered.log.synced_end == 1


async def test_a_replica_that_is_given_back_is_not_looked_through(spu: _Spu) -> None:
    """It was closed when it went. To read a whole segment would keep everybody waiting."""
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    await spu.apply()
    (given_back,) = await spu.apply(_topic())
    assert given_back is not replica
    assert (given_back.log.recovery.was_clean, given_back.log.recovery.scanned_bytes) == (True, 0)


async def test_a_replica_made_after_the_start_has_no_past_to_examine(nursery: trio.Nursery) -> None:
    spu = _Spu(nursery, clean=False)
    await spu.apply()
    await spu.change(_topic())
    assert spu.metrics.recovered_replicas == 0


async def test_a_clean_stop_speaks_for_each_log_once_and_not_for_those_that_did_not_belong_here(spu: _Spu) -> None:
    await spu.change(_topic(partitions=(0, 1)))
    assert spu.closed.whole == {(TOPIC, 2), *((OTHER, number) for number in range(3))}
    await spu.apply(_topic(partitions=(0, 1)))
    assert spu.closed.whole == set()


async def test_a_log_is_examined_that_was_not_closed_though_others_were(spu: _Spu) -> None:
    """After a power failure its partition was elsewhere, and the SPU stopped cleanly without it."""
    for replica in await spu.apply(_topic(partitions=(0, 1))):
        _append(replica, b"a")
        await replica.close()
    again = spu.again(spu.files.crash("all"), clean=False)
    again.closed.whole.add((TOPIC, 1))
    await again.apply(_topic(partitions=(0, 1)))
    assert again.metrics.recovered_replicas == 1


async def test_a_replica_that_is_given_back_knows_what_was_committed(spu: _Spu) -> None:
    both = (HERE, ELSEWHERE)
    for replica in await spu.apply(_topic(partitions=(0, 1), live=both)):
        _append(replica, b"a", b"b")
        replica.on_committed(2, Epoch(1))
    await spu.change(removed=((TOPIC, 1),))
    with capture_logs() as logs:
        await spu.change(_topic(partitions=(1, 2), live=both, epoch=3))
    said = [(log["event"], log.get("partition"), log.get("log_end"), log["log_level"]) for log in logs]
    assert ("replica_reattached", 1, 2, "info") in said
    assert ("replica_created", 2, None, "debug") in said
    replica = spu.replicas.find(TOPIC, 1)
    assert replica is not None
    assert replica.saved_high_watermark == SavedHighWatermark(2, Epoch(1))


async def test_what_was_committed_is_known_all_the_time_that_logs_are_being_closed(
    spu: _Spu, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes it down meanwhile would take it from the disk, and a crash may follow."""
    monkeypatch.setattr(spec_dispatcher, "CLOSES_AT_ONCE", 1)
    replicas = await spu.apply(_topic(partitions=(0, 1), live=(HERE, ELSEWHERE)))
    for replica in replicas:
        _append(replica, b"a")
        replica.on_committed(1, Epoch(1))
    async with replicas[0].log.disk.lock, replicas[1].log.disk.lock:
        nursery.start_soon(spu.apply)
        await trio.testing.wait_all_tasks_blocked()
        assert list(spu.replicas) == []
        assert [saved.value for saved in spu.closed.high_watermarks.values()] == [1, 1]


async def test_with_other_live_replicas_only_what_was_known_to_be_committed_is(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    for value in (b"a", b"b", b"c"):
        _append(replica, value)
    await replica.close()
    await save_high_watermarks(spu.files, "/data", {(TOPIC, 0): SavedHighWatermark(2, Epoch(1))})
    (alone,) = await spu.again().apply(_topic())
    assert alone.saved_high_watermark == SavedHighWatermark(3, NO_EPOCH), "alone, all of it is"
    (replica,) = await spu.again().apply(_topic(live=(HERE, ELSEWHERE)))
    assert replica.saved_high_watermark == SavedHighWatermark(2, Epoch(1))


async def test_a_log_that_starts_later_than_was_known_to_be_committed_was_committed_nobody_knows_when(
    spu: _Spu,
) -> None:
    (replica,) = await spu.apply(_topic())
    for value in (b"a", b"b", b"c"):
        _append(replica, value)
    await replica.log.advance_log_start(2)
    await replica.close()
    await save_high_watermarks(spu.files, "/data", {(TOPIC, 0): SavedHighWatermark(1, Epoch(1))})
    (replica,) = await spu.again().apply(_topic(live=(HERE, ELSEWHERE)))
    assert replica.saved_high_watermark == SavedHighWatermark(2, NO_EPOCH)


async def test_a_log_of_a_later_epoch_is_not_led_in_an_earlier_one(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic(epoch=7))
    _append(replica, b"a")
    await replica.close()
    again = spu.again()
    assert await again.apply(_topic(epoch=6)) == []
    assert again.replicas.damaged[TOPIC, 0].reason == "its log is at epoch 7, and epoch 6 was assigned"
    (opened,) = await again.apply(_topic(epoch=8))
    assert opened.log.log_end == 1


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("call", ["list", "make_directories"])
async def test_a_log_that_does_not_open_takes_no_neighbour_with_it(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch, call: str, damaged: int
) -> None:
    directory = layout.replica_directory("/data", "t", TOPIC, damaged)
    spu.files.make_directories(directory)
    tried = _fail_for(monkeypatch, spu.files, call, directory)
    given_up: list[ReplicaKey] = []
    monkeypatch.setattr(LiveReplicasUpdater, "give_up", lambda _, key: given_up.append(key))
    (whole,) = await spu.apply(_topic(partitions=(0, 1)))
    assert given_up == [(TOPIC, damaged)]
    assert whole.partition == 1 - damaged
    assert spu.replicas.damaged[TOPIC, damaged].reason == "the disk does not answer"
    await spu.apply(_topic(partitions=(0, 1)))
    assert len(tried) == 1, "it is not looked through again for nothing"
    await spu.change(_topic(partitions=(0, 1), epoch=1))
    assert len(tried) == 2, "an election is a reason"
    await spu.apply()
    assert not spu.replicas.damaged


async def test_a_log_for_which_no_file_could_be_opened_is_tried_again_whenever_it_is_named(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as now:
        used_up = OSError(errno.EMFILE, "Too many open files")
        directory = layout.replica_directory("/data", "t", TOPIC, 0)
        spu.files.make_directories(directory)
        _fail_for(now, spu.files, "list", directory, used_up)
        assert await spu.apply(_topic()) == []
    assert len(await spu.apply(_topic())) == 1


async def test_so_is_one_that_opened_and_could_not_be_looked_through(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as now:
        now.setattr(ReplicaLog, "load_producers", lack_open_files)
        assert await spu.apply(_topic()) == []
    assert len(await spu.apply(_topic())) == 1


async def test_a_log_that_is_not_led_and_does_not_close_takes_no_neighbour_with_it(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(_topic(epoch=7))
    _append(replica, b"a")
    await replica.close()
    again = spu.again()

    async def refuse(*_: object, clean: bool) -> None:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(Log, "close", refuse)
    assert [each.topic for each in await again.apply(_topic(epoch=6), _topic(OTHER, "other"))] == ["other"]
    assert again.replicas.damaged[TOPIC, 0].reason == "its log is at epoch 7, and epoch 6 was assigned"


async def test_a_log_with_a_header_that_is_none_is_one_that_did_not_open(spu: _Spu) -> None:
    """Its producers' snapshot is gone as well, so that opening it goes through sealed segments from batch to batch."""
    small = {"segment.bytes": "1048576"}
    (replica,) = await spu.apply(_topic(configs=small))
    for sequence in range(3):
        _append(replica, bytes(600_000), producer_id=7, producer_epoch=0, base_sequence=sequence)
    await replica.log.sync()
    directory = replica.log.directory
    for name in spu.files.list(directory):
        if name.endswith(".producers"):
            spu.files.remove(f"{directory}/{name}")
    spu.files.open(f"{directory}/{0:020d}.log").write_at(16, b"\x07")  # the magic byte of its batch
    again = spu.again(clean=False)
    assert [each.topic for each in await again.apply(_topic(configs=small), _topic(OTHER, "other"))] == ["other"]
    assert "magic" in again.replicas.damaged[TOPIC, 0].reason


async def test_a_log_that_does_not_tell_of_its_producers_is_opened_when_others_have_mended_it(
    spu: _Spu, autojump_clock: trio.testing.MockClock
) -> None:
    small, live = {"segment.bytes": "1048576"}, (HERE, ELSEWHERE)
    topic = _topic(configs=small, live=live)
    (replica,) = await spu.apply(topic)
    for sequence in range(3):
        _append(replica, bytes(600_000), producer_id=7, producer_epoch=0, base_sequence=sequence)
    replica.high_watermark = 3
    spu.closed.keep(replica.key, replica.saved_high_watermark)
    await save_high_watermarks(spu.files, "/data", spu.closed.high_watermarks)
    await replica.close()
    directory = replica.log.directory
    for name in spu.files.list(directory):
        if name.endswith(".producers"):
            spu.files.remove(f"{directory}/{name}")
    file = spu.files.open(f"{directory}/{0:020d}.log")
    file.write_at(16, b"\x03")  # the magic byte of its batch
    again = spu.again()
    asked: list[int] = []

    async def mend(replica: Replica, offset: int) -> bool:
        asked.append(offset)
        if len(asked) == 3:
            file.write_at(16, b"\x02")
        return False

    again.mend = mend  # type: ignore[method-assign]
    assert await again.apply(topic) == []
    assert "magic" in again.replicas.damaged[TOPIC, 0].reason
    await trio.sleep(10)
    (replica,) = again.replicas
    assert asked == [0, 0, 0]
    assert (replica.high_watermark, replica.log.log_end) == (3, 3)
    assert [producer.batches[-1].last_sequence for _, producer in replica.log.producers] == [2]


async def test_a_log_that_cannot_be_read_any_more_is_mended_and_opened_again(
    spu: _Spu, autojump_clock: trio.testing.MockClock
) -> None:
    """It is in use, and who reads it here has come upon a header that is none."""
    topic = _topic(live=(HERE, ELSEWHERE))
    (replica,) = await spu.apply(topic)
    for value in (b"a", b"b", b"c"):
        _append(replica, value)
    replica.high_watermark = 2
    (second,) = replica.log.read_batches(1, 2)
    second.file.write_at(second.position + 16, b"\x03")
    told: list[tuple[int, bool]] = []
    mended_at = trio.current_time() + 5

    async def report(request: ReportLiveReplicasRequest) -> ReportLiveReplicasResponse:
        told.extend((each.partition, each.has_failed) for each in request.partitions)
        return ReportLiveReplicasResponse()

    async def mend(replica: Replica, offset: int) -> bool:
        assert offset == 0
        assert replica.is_open
        assert replica.offline_reason is None, "it could not be mended else"
        if trio.current_time() > mended_at:
            second.file.write_at(second.position + 16, b"\x02")
        return False

    spu.mend = mend  # type: ignore[method-assign]
    spu.nursery.start_soon(spu.live_replicas.run, report)
    replica.go_offline("a batch of magic 3", damaged_from=0)
    await trio.sleep(4)
    assert list(spu.replicas) == []
    assert spu.replicas.damaged[TOPIC, 0].reason == "a batch of magic 3"
    assert told[-1] == (0, True)
    assert not replica.is_open
    await trio.sleep(10)
    (opened,) = spu.replicas
    assert (opened.high_watermark, opened.log.log_end, opened.offline_reason) == (2, 3, None)
    assert opened.replication is not None
    assert told[-1] == (0, False), "it may be elected again"
    await spu.apply()
    assert list(spu.replicas) == []


async def test_a_replica_whose_role_lacked_an_open_file_takes_part_again_when_there_is_one(
    spu: _Spu, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(_topic(live=(HERE, ELSEWHERE)))
    _append(replica, b"a")
    led = _topic(epoch=7, live=(HERE, ELSEWHERE))
    with monkeypatch.context() as now:
        now.setattr(ReplicaLog, "entries", lack_open_files)
        await spu.change(replace(led, partitions=(replace(led.partitions[0], leader_incarnation="process"),)))
        await trio.sleep(5)
        assert list(spu.replicas) == []
    await trio.sleep(PAUSE_SECONDS_MAX)
    (opened,) = spu.replicas
    assert (opened.offline_reason, opened.spec.epoch, opened.is_leader) == (None, 7, True)
    assert list(opened.log.epochs) == [(0, 0), (7, 1)]


async def test_a_topic_that_goes_before_its_log_is_mended_takes_it_along(
    spu: _Spu, autojump_clock: trio.testing.MockClock
) -> None:
    (replica,) = await spu.apply(_topic(live=(HERE, ELSEWHERE)))
    _append(replica, b"a")
    replica.go_offline("a batch of magic 3", damaged_from=0)
    await spu.apply()
    await trio.sleep(100)
    assert (list(spu.replicas), spu.replicas.damaged) == ([], {})
    assert replica.log.has_failed, "it is closed"


async def test_a_disk_that_fails_is_nothing_to_be_mended(spu: _Spu, autojump_clock: trio.testing.MockClock) -> None:
    (replica,) = await spu.apply(_topic(live=(HERE, ELSEWHERE)))
    replica.go_offline("the disk does not answer")
    await trio.sleep(100)
    assert list(spu.replicas) == [replica]


async def test_who_stops_waiting_does_not_stop_the_work(spu: _Spu) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(spu.apply, _topic(partitions=range(120)))
        while not list(spu.replicas):
            await trio.lowlevel.checkpoint()
        assert 0 < len(list(spu.replicas)) < 120, "others had their turn meanwhile"
        nursery.cancel_scope.cancel()
    assert len(list(spu.replicas)) == 120


async def test_others_have_their_turn_while_a_long_log_is_looked_through_for_its_high_watermark(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    topic = _topic(live=(HERE, ELSEWHERE))
    (replica,) = await spu.apply(topic)
    for _ in range(9):
        _append(replica, b"a")
    await replica.close()
    again = spu.again()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.apply, topic)
        for _ in range(4):
            await trio.lowlevel.checkpoint()
            assert not list(again.replicas)
    (replica,) = again.replicas
    assert (replica.high_watermark, replica.log.log_end) == (0, 9)


async def _damaged(spu: _Spu, *topics: HeldTopic) -> tuple[_Spu, File]:
    """A restart, with a batch in the first log that does not say what it is."""
    replicas = await spu.apply(*topics)
    for replica in replicas:
        _append(replica, b"a")
        await replica.close()
    directory = replicas[0].log.directory
    (name,) = (name for name in spu.files.list(directory) if name.endswith(".log"))
    file = spu.files.open(f"{directory}/{name}")
    file.write_at(16, b"\x07")  # its magic byte
    return spu.again(), file


async def test_a_log_that_cannot_be_read_where_it_is_committed_is_one_that_did_not_open(spu: _Spu) -> None:
    topics = [
        _topic(partitions=(0, 1), live=(HERE, ELSEWHERE)),
        _topic(OTHER, "other", live=(HERE, ELSEWHERE)),
    ]
    again, _ = await _damaged(spu, *topics)
    assert [(each.topic, each.partition) for each in await again.apply(*topics)] == [("t", 1), ("other", 0)]
    assert "magic" in again.replicas.damaged[TOPIC, 0].reason


async def test_a_log_that_others_have_mended_is_opened_after_all(
    spu: _Spu, autojump_clock: trio.testing.MockClock
) -> None:
    topic = _topic(live=(HERE, ELSEWHERE))
    again, file = await _damaged(spu, topic)
    told: list[tuple[int, bool]] = []

    async def report(request: ReportLiveReplicasRequest) -> ReportLiveReplicasResponse:
        told.extend((each.partition, each.has_failed) for each in request.partitions)
        return ReportLiveReplicasResponse()

    again.nursery.start_soon(again.live_replicas.run, report)
    assert await again.apply(topic) == []
    again.live_replicas.on_changed()
    await trio.sleep(10)
    assert list(again.replicas) == []
    assert told == [(0, True)]

    async def mend(replica: Replica, offset: int) -> bool:
        file.write_at(16, b"\x02")
        return False

    again.mend = mend  # type: ignore[method-assign]
    await trio.sleep(60)
    (replica,) = again.replicas
    assert (replica.log.log_end, replica.high_watermark, replica.replication is not None) == (1, 0, True)
    assert again.replicas.damaged == {}
    assert told[1:] == [(0, False)], "nobody is to give the partition another replica"
    assert replica.log.recovery.was_clean, "it was closed cleanly, and nothing has come to it since"
    _append(replica, b"b")
    await trio.sleep(100)
    assert list(again.replicas) == [replica]


async def test_a_log_that_cannot_be_read_is_tried_again_at_each_election_and_goes_with_its_topic(
    spu: _Spu, autojump_clock: trio.testing.MockClock
) -> None:
    topic = _topic(live=(HERE, ELSEWHERE))
    again, file = await _damaged(spu, topic)
    await again.apply(topic)
    with capture_logs() as logs:
        await again.change(_topic(live=(HERE, ELSEWHERE), epoch=1))
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["replica_did_not_open"]
    assert file.size() == 69, "nothing of it was cut off"
    with capture_logs() as logs:
        await again.change(removed=((TOPIC, 0),))
        await trio.sleep(100)
    assert [each["event"] for each in logs] == ["topic_parked"]
    assert (list(again.replicas), again.replicas.damaged) == ([], {})


async def _with_flipped_record(spu: _Spu, topic: HeldTopic, *, has_promised: bool = True) -> _Spu:
    """After kill -9, with two of its three batches behind what has flipped."""
    (replica,) = await spu.apply(topic)
    for value in (b"a", b"b", b"c"):
        _append(replica, value)
    if has_promised:
        await spu.promises.promise(replica.key, Epoch(0))
    directory = replica.log.directory
    (name,) = (name for name in spu.files.list(directory) if name.endswith(".log"))
    file = spu.files.open(f"{directory}/{name}")
    file.write_at(2 * file.size() // 3 - 1, b"?")
    return spu.again(clean=False)


async def test_a_log_from_which_recovery_had_to_cut_what_was_written_is_not_opened_as_one_that_has_it_all(
    spu: _Spu,
) -> None:
    live = _topic(live=(HERE, ELSEWHERE))
    again = await _with_flipped_record(spu, live)
    assert await again.apply(live) == []
    assert "flipped" in again.replicas.damaged[TOPIC, 0].reason
    for clean in (False, True):
        again = again.again(clean=clean)
        assert await again.apply(live) == [], "it is remembered"
    (replica,) = await again.apply(_topic(live=(ELSEWHERE,), leader=ELSEWHERE))
    assert replica.log.log_end == 1
    assert again.promises.is_in_doubt(replica.key)
    assert await again.again(clean=False).apply(live) != [], "it was told to begin anew"


async def test_whenever_it_is_killed_nothing_goes_from_such_a_log_before_that_is_remembered(spu: _Spu) -> None:
    live = _topic(live=(HERE, ELSEWHERE))
    again = await _with_flipped_record(spu, live)
    states: list[SimulatedFiles] = []
    again.files.on_operation = lambda: states.append(again.files.crash("all"))
    await again.apply(live)
    (replica,) = await again.again(clean=False).apply(_topic(live=(ELSEWHERE,), leader=ELSEWHERE))
    states += [spu.files.crash("all")]
    assert replica.log.log_end == 1 and len(states) > 5
    for state in states:
        after = spu.again(state, clean=False)
        assert await after.apply(live) == [] or after.promises.is_in_doubt(replica.key)


@pytest.mark.parametrize("known_store", ["store", "the one before"])
async def test_a_store_that_never_promised_anything_opens_such_a_log_if_another_one_is_known_to_have_it_all(
    spu: _Spu, known_store: str
) -> None:
    """The partition had no other replica until now, and the machine stopped."""
    again = await _with_flipped_record(spu, _topic(), has_promised=False)
    topic = _topic(live=(HERE, ELSEWHERE))
    (spec,) = topic.partitions
    live = replace(topic, partitions=(replace(spec, live_incarnations={HERE: known_store}),))
    is_refused = known_store == "store"
    assert [replica.log.log_end for replica in await again.apply(live)] == ([] if is_refused else [1])
    assert again.parking.was_removed((TOPIC, 0)) == is_refused


async def test_what_a_sync_failed_to_write_is_written_again_where_the_replica_is_given_back(spu: _Spu) -> None:
    (replica,) = await spu.apply(_topic())
    _append(replica, b"a")
    await spu.promises.promise(replica.key, Epoch(0))
    spu.files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await replica.log.sync()
    replica.go_offline("sync failed")
    spu.files.syncs_fail = False
    await spu.apply()
    (replica,) = await spu.apply(_topic())
    await replica.log.sync()
    await spu.files.sync_directory("")
    (replica,) = await spu.again(spu.files.crash("synced"), clean=False).apply(_topic())
    assert replica.log.log_end == 1


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_sync_that_fails_as_a_log_opens_or_is_mended_is_known_to_the_next_process(
    spu: _Spu, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    """Which would find nothing to sync in it."""
    topic = _topic(configs={"flush.messages": "1"})
    (replica,) = await spu.apply(topic)
    _append(replica, b"a")
    again = spu.again(spu.files.after_kill(), clean=False)
    if is_damaged:

        def find_none(entries: ReplicaLog) -> NoReturn:
            raise DamagedLogError(0, KafkaError(ErrorCode.CORRUPT_MESSAGE, "a header is none"))

        async def mend(replica: Replica, offset: int) -> bool:
            with suppress(OSError):
                await replica.log.sync()
            return False

        monkeypatch.setattr(ReplicaLog, "load_producers", find_none)
        monkeypatch.setattr(again, "mend", mend)
    again.files.syncs_fail = True
    assert await again.apply(topic) == []
    await trio.testing.wait_all_tasks_blocked()
    assert again.closed.has_disk_failed
    assert Promises(again.files.after_kill(), "/data").has_disk_failed


async def test_in_doubt_what_a_sync_may_have_failed_to_write_is_written_again(spu: _Spu) -> None:
    """Also if a process has ended meanwhile that knew why there is doubt."""
    live = _topic(live=(HERE, ELSEWHERE))
    (replica,) = await spu.apply(live)
    _append(replica, b"a")
    await spu.promises.promise(replica.key, Epoch(0))
    await spu.promises.doubt_all()
    spu.files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await replica.log.sync()
    again = spu.again(spu.files.after_kill(), clean=False)
    (replica,) = await again.apply(live)
    await replica.log.sync()
    await again.files.sync_directory("")
    after = spu.again(again.files.crash("synced"), clean=False)
    (replica,) = await after.apply(live)
    assert replica.log.log_end == 1


async def test_a_store_that_is_in_doubt_anyway_opens_such_a_log(spu: _Spu) -> None:
    live = _topic(live=(HERE, ELSEWHERE))
    again = await _with_flipped_record(spu, live)
    await again.promises.doubt_all()
    (replica,) = await again.apply(live)
    assert replica.log.log_end == 1


async def test_who_has_the_partition_alone_goes_on_with_what_is_left(spu: _Spu) -> None:
    again = await _with_flipped_record(spu, _topic())
    (replica,) = await again.apply(_topic())
    assert (replica.log.log_end, replica.is_leader) == (1, True)


async def test_shelves_are_somebody_elses_and_no_replicas(spu: _Spu) -> None:
    heard: list[tuple[object, ...]] = []

    def hear(specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        heard.append((*specs, *removed, is_full, len(list(spu.replicas))))

    spu.hear = hear  # type: ignore[method-assign]
    (shelved,) = _topic(leader=ELSEWHERE, live=(ELSEWHERE,)).partitions
    await spu.dispatcher.apply(replace(_full(_topic(OTHER, "other")), shelved=(shelved,)))
    assert [replica.topic for replica in spu.replicas] == ["other"]
    key = (OTHER, 0)
    await spu.dispatcher.apply(HeldSpecs(False, removed=(key,), unshelved=(key,)))
    assert heard == [(shelved, True, 0), (key, False, 0)]


async def test_a_replica_that_goes_where_a_shelf_stays_is_parked(spu: _Spu) -> None:
    await spu.apply(_topic())
    (shelved,) = _topic(leader=ELSEWHERE, live=(ELSEWHERE,)).partitions
    await spu.dispatcher.apply(HeldSpecs(False, removed=((TOPIC, 0),), shelved=(shelved,)))
    assert not list(spu.replicas)
    assert "parked" in spu.files.list(f"/data/topics/t/{TOPIC}")
