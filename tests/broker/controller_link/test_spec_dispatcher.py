from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

import pytest
import trio
import trio.testing
from dispatching import ELSEWHERE, HERE, OTHER, TOPIC, DispatcherSpu, append, fail_for, full, held_topic
from msgspec import Struct
from msgspec.structs import replace
from spus import lack_open_files
from structlog.testing import capture_logs

from tailrace.broker.controller_link import spec_dispatcher
from tailrace.broker.controller_link.held_specs import HeldSpecs, HeldTopic
from tailrace.broker.controller_link.spec_dispatcher import CLOSES_AT_ONCE
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_log import DamagedLogError, ReplicaLog
from tailrace.broker.upkeep.parking import Storage
from tailrace.broker.upkeep.unreadable_logs import PAUSE_SECONDS_MAX
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.protocol.internal.report_live_replicas import ReportLiveReplicasRequest, ReportLiveReplicasResponse
from tailrace.runtime.files import File
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    SavedHighWatermark,
    save_high_watermarks,
)
from tailrace.storage.directory.promises import Promises


@pytest.fixture
async def spu(nursery: trio.Nursery) -> DispatcherSpu:
    return DispatcherSpu(nursery)


async def test_replicas_that_belong_here_run_after_the_call(spu: DispatcherSpu) -> None:
    made = await spu.apply(held_topic(partitions=(0, 2)), held_topic(OTHER, "other"))
    assert [(replica.topic, replica.partition) for replica in made] == [("t", 0), ("t", 2), ("other", 0)]
    assert spu.files.list(f"/data/topics/t/{TOPIC}") == ["0", "2"]


async def test_an_election_reaches_the_replica_that_runs(spu: DispatcherSpu) -> None:
    (before,) = await spu.apply(held_topic())
    append(before, b"a")
    (after,) = await spu.change(held_topic(epoch=7))
    assert after is before
    append(after, b"b")
    assert list(after.log.epochs) == [(0, 0), (7, 1)]
    (follower,) = await spu.change(held_topic(epoch=8, leader=ELSEWHERE))
    assert not follower.is_leader


async def test_a_reconciliation_keeps_one_object_for_each_spec_that_has_not_changed(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    before = replica.spec
    await spu.apply(held_topic())
    (topic,) = spu.dispatcher._topics.values()
    assert topic.partitions[0] is before
    assert replica.spec is before


async def test_a_message_from_the_past_changes_nothing(spu: DispatcherSpu) -> None:
    await spu.apply(held_topic(epoch=7))
    (replica,) = await spu.apply(held_topic(epoch=6, leader=ELSEWHERE))
    assert (replica.is_leader, replica.spec.epoch) == (True, 7)


async def test_a_topics_configs_reach_all_its_replicas_also_those_that_are_not_named(spu: DispatcherSpu) -> None:
    await spu.apply(held_topic(partitions=(0, 1)))
    replicas = await spu.change(
        held_topic(partitions=(1,), configs={"flush.messages": "1", "segment.bytes": "2097152"})
    )
    assert [replica.syncs_before_acknowledging for replica in replicas] == [True, True]
    assert [replica.log.config.segment_bytes_max for replica in replicas] == [2097152, 2097152]


async def test_broker_configs_reach_topics_that_set_nothing_themselves(spu: DispatcherSpu) -> None:
    await spu.apply(held_topic(), held_topic(OTHER, "other", configs={"flush.messages": "5"}))
    specs = HeldSpecs(False, default_configs={"log.flush.interval.messages": "1", "num.partitions": "3"})
    await spu.dispatcher.apply(specs)
    plain, own = spu.replicas
    assert (plain.settings.log.flush_messages, own.settings.log.flush_messages) == (1, 5)
    assert spu.broker_configs.settings.partitions_default == 3
    await spu.dispatcher.apply(HeldSpecs(False))
    assert spu.broker_configs.settings.partitions_default == 1, "what is named no more has no value any more"
    assert plain.settings.log.flush_messages > 1


async def test_what_the_configs_drop_together_with_a_topic_is_not_opened_again(spu: DispatcherSpu) -> None:
    await spu.apply(held_topic(), held_topic(OTHER, "other"))
    await spu.dispatcher.apply(full(held_topic(OTHER, "other"), num_partitions="3"))
    assert [replica.topic for replica in spu.replicas] == ["other"]


async def test_configs_that_make_no_sense_are_refused_and_the_rest_is_done(spu: DispatcherSpu) -> None:
    with pytest.raises(KafkaError, match=r"retention\.ms"):
        await spu.apply(held_topic(configs={"retention.ms": "soon"}), held_topic(OTHER, "other"))
    assert [replica.topic for replica in spu.replicas] == ["other"]
    with pytest.raises(KafkaError, match=r"num\.partitions"):
        await spu.dispatcher.apply(full(held_topic(), num_partitions="many"))
    assert [replica.topic for replica in spu.replicas] == ["t"]
    assert spu.broker_configs.settings.partitions_default == 1


async def test_partitions_are_added_to_a_topic_that_runs(spu: DispatcherSpu) -> None:
    (first,) = await spu.apply(held_topic())
    assert (await spu.change(held_topic(partitions=(4,))))[0] is first
    assert [replica.partition for replica in spu.replicas] == [0, 4]


async def test_what_is_not_in_the_whole_stops_and_is_parked(spu: DispatcherSpu) -> None:
    for replica in await spu.apply(held_topic(partitions=(0, 1)), held_topic(OTHER, "other")):
        append(replica, b"a")
    replicas = await spu.apply(held_topic(partitions=(1,)))
    assert [(replica.topic, replica.partition) for replica in replicas] == [("t", 1)]
    assert spu.files.exists(layout.parked_path("/data", "other", OTHER))
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC)), "a part of it is here"
    assert spu.files.exists(layout.parked_path("/data", "t", TOPIC, 0))
    await spu.apply(held_topic(partitions=(0, 1)))
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC, 0))


async def test_a_replica_whose_parked_storage_was_removed_starts_empty_when_it_returns(spu: DispatcherSpu) -> None:
    both = (HERE, ELSEWHERE)
    before, _ = await spu.apply(held_topic(partitions=(0, 1), leader=ELSEWHERE, live=both))
    await trio.testing.wait_all_tasks_blocked()
    append(before, b"a")
    promises = spu.promises
    assert promises.epoch((TOPIC, 0)) == 0
    await spu.apply(held_topic(partitions=(1,), leader=ELSEWHERE, live=both))
    assert await spu.remove_parked() == [Storage("t", TOPIC, 0)]
    assert promises.epoch((TOPIC, 0)) == NO_EPOCH
    assert promises.epoch((TOPIC, 1)) == 0
    assert len(await spu.apply(held_topic(partitions=(0, 1), leader=ELSEWHERE, live=both))) == 1
    assert "were removed" in spu.replicas.damaged[TOPIC, 0].reason, "it is said to have all that was acknowledged"
    _, after = await spu.apply(held_topic(partitions=(0, 1), leader=ELSEWHERE, live=(ELSEWHERE,)))
    assert not spu.replicas.damaged
    await trio.testing.wait_all_tasks_blocked()
    assert (after.log.log_end, after.high_watermark) == (0, 0)
    assert promises.is_in_doubt((TOPIC, 0))


async def test_what_was_removed_is_in_doubt_though_it_is_known_what_it_promised(spu: DispatcherSpu) -> None:
    live = held_topic(leader=ELSEWHERE, live=(HERE, ELSEWHERE))
    (before,) = await spu.apply(live)
    await trio.testing.wait_all_tasks_blocked()
    append(before, b"a")
    await spu.promises.end_doubt(before.key)
    await spu.apply()
    await spu.remove_parked()
    again = spu.again()  # its promises have not been rewritten
    assert again.promises.epoch((TOPIC, 0)) == 0
    (after,) = await again.apply(held_topic(leader=ELSEWHERE, live=(ELSEWHERE,)))
    assert (after.log.log_end, again.promises.is_in_doubt(after.key)) == (0, True)


async def test_a_removed_topic_stops_refuses_waiters_and_parks_its_files(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
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


async def test_what_belongs_here_and_cannot_be_applied_is_not_parked(spu: DispatcherSpu) -> None:
    """Another version may have written its configs. Its records must not expire in parked storage."""
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    await replica.close()
    again = spu.again()
    nonsense = held_topic(configs={"retention.ms": "soon"})
    for was_parked in (False, True):
        if was_parked:
            await again.parking.park(Storage("t", TOPIC))
        with pytest.raises(KafkaError):
            await again.apply(nonsense)
        assert await again.remove_parked() == []
    (found,) = await again.apply(held_topic())
    assert found.log.log_end == 1


async def test_a_marker_that_cannot_be_removed_keeps_the_replica_away(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files would be removed while they are in use."""
    replica, _ = await spu.apply(held_topic(partitions=(0, 1)))
    append(replica, b"a")
    await spu.apply(held_topic(partitions=(1,)))
    with monkeypatch.context() as now:
        fail_for(now, spu.files, "remove", layout.parked_path("/data", "t", TOPIC, 0))
        assert [each.partition for each in await spu.apply(held_topic(partitions=(0, 1)))] == [1]
    assert spu.replicas.damaged[TOPIC, 0].reason == "the disk does not answer"
    assert [each.partition for each in await spu.apply(held_topic(partitions=(0, 1), epoch=1))] == [1, 0]


async def test_a_topics_marker_that_cannot_be_removed_keeps_the_topic_away_and_no_other(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    await spu.apply()
    marker = layout.parked_path("/data", "t", TOPIC)
    with monkeypatch.context() as now:
        fail_for(now, spu.files, "remove", marker)
        assert [each.topic for each in await spu.apply(held_topic(partitions=(0, 1)), held_topic(OTHER, "other"))] == [
            "other"
        ]
    assert spu.replicas.damaged.keys() == {(TOPIC, 0), (TOPIC, 1)}
    assert len(await spu.change(held_topic(partitions=(0, 1), epoch=1))) == 3
    assert not spu.files.exists(marker)


async def test_a_log_that_does_not_close_holds_up_nothing(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    spu.files.syncs_fail = True
    assert await spu.change(removed=((TOPIC, 0),)) == []


async def test_a_topic_of_many_partitions_goes_as_fast_as_one_of_a_single_one(
    autojump_clock: object, spu: DispatcherSpu
) -> None:
    """All other specs wait for it."""
    for replica in await spu.apply(held_topic(partitions=range(CLOSES_AT_ONCE)), held_topic(OTHER, "single")):
        append(replica, b"a")
        await replica.log.sync()
        append(replica, b"b")
    spu.files.sync_seconds = lambda: 1.0
    took = []
    for left in ([held_topic(partitions=range(CLOSES_AT_ONCE))], []):
        since = trio.current_time()
        await spu.apply(*left)
        took.append(trio.current_time() - since)
    assert took[0] == took[1] > 0
    assert {(TOPIC, number) for number in range(CLOSES_AT_ONCE)} <= spu.closed.clean


async def test_the_same_topic_again_finds_its_records_and_another_of_its_name_starts_empty(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a", b"b")
    (namesake,) = await spu.change(held_topic(OTHER), removed=((TOPIC, 0),))
    assert namesake.log.log_end == 0
    (again,) = await spu.apply(held_topic(epoch=1))
    assert again.log.log_end == again.high_watermark == 2
    assert spu.replicas.find("t", 0) is again
    assert not spu.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_what_belongs_to_no_topic_is_parked_once_all_are_known(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic(OTHER, "forgotten"))
    await replica.close()
    again = spu.again()
    await again.change(held_topic())
    assert not again.dispatcher.has_applied_all
    assert not again.files.exists(layout.parked_path("/data", "forgotten", OTHER))
    await again.apply(held_topic())
    assert again.dispatcher.has_applied_all
    assert again.files.exists(layout.parked_path("/data", "forgotten", OTHER))
    assert not again.files.exists(layout.parked_path("/data", "t", TOPIC))


async def test_what_belongs_to_no_topic_and_cannot_be_parked_holds_up_nothing(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(held_topic(OTHER, "forgotten"))
    await replica.close()
    again = spu.again()
    fail_for(monkeypatch, again.files, "list", layout.topic_directory("/data", "forgotten", OTHER))
    assert [each.topic for each in await again.apply(held_topic())] == ["t"]
    assert again.dispatcher.has_applied_all


async def test_a_replica_that_is_given_back_is_not_looked_through(spu: DispatcherSpu) -> None:
    """Its log was closed cleanly. Reading a whole segment would delay all requests."""
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    await spu.apply()
    (given_back,) = await spu.apply(held_topic())
    assert given_back is not replica
    assert (given_back.log.recovery.was_clean, given_back.log.recovery.scanned_bytes) == (True, 0)


async def test_a_replica_that_is_given_back_knows_what_was_committed(spu: DispatcherSpu) -> None:
    both = (HERE, ELSEWHERE)
    for replica in await spu.apply(held_topic(partitions=(0, 1), live=both)):
        append(replica, b"a", b"b")
        replica.on_committed(2, Epoch(1))
    await spu.change(removed=((TOPIC, 1),))
    with capture_logs() as logs:
        await spu.change(held_topic(partitions=(1, 2), live=both, epoch=3))
    said = [(log["event"], log.get("partition"), log.get("log_end"), log["log_level"]) for log in logs]
    assert ("replica_reattached", 1, 2, "info") in said
    assert ("replica_created", 2, None, "debug") in said
    replica = spu.replicas.find(TOPIC, 1)
    assert replica is not None
    assert replica.saved_high_watermark == SavedHighWatermark(2, Epoch(1))


async def test_what_was_committed_is_known_all_the_time_that_logs_are_being_closed(
    spu: DispatcherSpu, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that was written meanwhile would omit it, and a crash may follow."""
    monkeypatch.setattr(spec_dispatcher, "CLOSES_AT_ONCE", 1)
    replicas = await spu.apply(held_topic(partitions=(0, 1), live=(HERE, ELSEWHERE)))
    for replica in replicas:
        append(replica, b"a")
        replica.on_committed(1, Epoch(1))
    async with replicas[0].log.disk.lock, replicas[1].log.disk.lock:
        nursery.start_soon(spu.apply)
        await trio.testing.wait_all_tasks_blocked()
        assert list(spu.replicas) == []
        assert [saved.value for saved in spu.closed.high_watermarks.values()] == [1, 1]


async def test_a_log_with_unreadable_producers_is_opened_when_it_was_repaired(
    spu: DispatcherSpu, autojump_clock: trio.testing.MockClock
) -> None:
    small, live = {"segment.bytes": "1048576"}, (HERE, ELSEWHERE)
    topic = held_topic(configs=small, live=live)
    (replica,) = await spu.apply(topic)
    for sequence in range(3):
        append(replica, bytes(600_000), producer_id=7, producer_epoch=0, base_sequence=sequence)
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


async def test_a_log_that_became_unreadable_is_repaired_and_opened_again(
    spu: DispatcherSpu, autojump_clock: trio.testing.MockClock
) -> None:
    """The replica is in use, and a reader has found a corrupt header."""
    topic = held_topic(live=(HERE, ELSEWHERE))
    (replica,) = await spu.apply(topic)
    for value in (b"a", b"b", b"c"):
        append(replica, value)
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
    spu: DispatcherSpu, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(held_topic(live=(HERE, ELSEWHERE)))
    append(replica, b"a")
    led = held_topic(epoch=7, live=(HERE, ELSEWHERE))
    with monkeypatch.context() as now:
        now.setattr(ReplicaLog, "entries", lack_open_files)
        await spu.change(replace(led, partitions=(replace(led.partitions[0], leader_incarnation="process"),)))
        await trio.sleep(5)
        assert list(spu.replicas) == []
    await trio.sleep(PAUSE_SECONDS_MAX)
    (opened,) = spu.replicas
    assert (opened.offline_reason, opened.spec.epoch, opened.is_leader) == (None, 7, True)
    assert list(opened.log.epochs) == [(0, 0), (7, 1)]


async def test_a_topic_that_is_removed_before_its_log_is_repaired_takes_it_along(
    spu: DispatcherSpu, autojump_clock: trio.testing.MockClock
) -> None:
    (replica,) = await spu.apply(held_topic(live=(HERE, ELSEWHERE)))
    append(replica, b"a")
    replica.go_offline("a batch of magic 3", damaged_from=0)
    await spu.apply()
    await trio.sleep(100)
    assert (list(spu.replicas), spu.replicas.damaged) == ([], {})
    assert replica.log.has_failed, "it is closed"


async def test_a_failed_disk_is_not_repaired(spu: DispatcherSpu, autojump_clock: trio.testing.MockClock) -> None:
    (replica,) = await spu.apply(held_topic(live=(HERE, ELSEWHERE)))
    replica.go_offline("the disk does not answer")
    await trio.sleep(100)
    assert list(spu.replicas) == [replica]


async def test_a_cancelled_caller_does_not_stop_the_work(spu: DispatcherSpu) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(spu.apply, held_topic(partitions=range(120)))
        while not list(spu.replicas):
            await trio.lowlevel.checkpoint()
        assert 0 < len(list(spu.replicas)) < 120, "others had their turn meanwhile"
        nursery.cancel_scope.cancel()
    assert len(list(spu.replicas)) == 120


async def _damaged(spu: DispatcherSpu, *topics: HeldTopic) -> tuple[DispatcherSpu, File]:
    """Restarts with a batch of an unknown format in the first log."""
    replicas = await spu.apply(*topics)
    for replica in replicas:
        append(replica, b"a")
        await replica.close()
    directory = replicas[0].log.directory
    (name,) = (name for name in spu.files.list(directory) if name.endswith(".log"))
    file = spu.files.open(f"{directory}/{name}")
    file.write_at(16, b"\x07")  # its magic byte
    return spu.again(), file


async def test_a_log_that_cannot_be_read_where_it_is_committed_is_one_that_did_not_open(spu: DispatcherSpu) -> None:
    topics = [
        held_topic(partitions=(0, 1), live=(HERE, ELSEWHERE)),
        held_topic(OTHER, "other", live=(HERE, ELSEWHERE)),
    ]
    again, _ = await _damaged(spu, *topics)
    assert [(each.topic, each.partition) for each in await again.apply(*topics)] == [("t", 1), ("other", 0)]
    assert "magic" in again.replicas.damaged[TOPIC, 0].reason


async def test_a_log_that_was_repaired_from_others_is_opened(
    spu: DispatcherSpu, autojump_clock: trio.testing.MockClock
) -> None:
    topic = held_topic(live=(HERE, ELSEWHERE))
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
    append(replica, b"b")
    await trio.sleep(100)
    assert list(again.replicas) == [replica]


async def test_a_log_that_cannot_be_read_is_tried_again_at_each_election_and_goes_with_its_topic(
    spu: DispatcherSpu, autojump_clock: trio.testing.MockClock
) -> None:
    topic = held_topic(live=(HERE, ELSEWHERE))
    again, file = await _damaged(spu, topic)
    await again.apply(topic)
    with capture_logs() as logs:
        await again.change(held_topic(live=(HERE, ELSEWHERE), epoch=1))
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["replica_did_not_open"]
    assert file.size() == 69, "nothing of it was cut off"
    with capture_logs() as logs:
        await again.change(removed=((TOPIC, 0),))
        await trio.sleep(100)
    assert [each["event"] for each in logs] == ["topic_parked"]
    assert (list(again.replicas), again.replicas.damaged) == ([], {})


async def test_what_a_sync_failed_to_write_is_written_again_where_the_replica_is_given_back(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    await spu.promises.promise(replica.key, Epoch(0))
    spu.files.syncs_fail = True
    with pytest.raises(OSError, match="broken"):
        await replica.log.sync()
    replica.go_offline("sync failed")
    spu.files.syncs_fail = False
    await spu.apply()
    (replica,) = await spu.apply(held_topic())
    await replica.log.sync()
    await spu.files.sync_directory("")
    (replica,) = await spu.again(spu.files.crash("synced"), clean=False).apply(held_topic())
    assert replica.log.log_end == 1


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_sync_that_fails_while_a_log_opens_or_is_repaired_is_known_to_the_next_process(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    """The next process would find nothing to sync."""
    topic = held_topic(configs={"flush.messages": "1"})
    (replica,) = await spu.apply(topic)
    append(replica, b"a")
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


async def test_shelves_are_no_replicas(spu: DispatcherSpu) -> None:
    heard: list[tuple[object, ...]] = []

    def hear(specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        heard.append((*specs, *removed, is_full, len(list(spu.replicas))))

    spu.hear = hear  # type: ignore[method-assign]
    (shelved,) = held_topic(leader=ELSEWHERE, live=(ELSEWHERE,)).partitions
    await spu.dispatcher.apply(replace(full(held_topic(OTHER, "other")), shelved=(shelved,)))
    assert [replica.topic for replica in spu.replicas] == ["other"]
    key = (OTHER, 0)
    await spu.dispatcher.apply(HeldSpecs(False, removed=(key,), unshelved=(key,)))
    assert heard == [(shelved, True, 0), (key, False, 0)]


async def test_a_replica_that_goes_where_a_shelf_stays_is_parked(spu: DispatcherSpu) -> None:
    await spu.apply(held_topic())
    (shelved,) = held_topic(leader=ELSEWHERE, live=(ELSEWHERE,)).partitions
    await spu.dispatcher.apply(HeldSpecs(False, removed=((TOPIC, 0),), shelved=(shelved,)))
    assert not list(spu.replicas)
    assert "parked" in spu.files.list(f"/data/topics/t/{TOPIC}")
