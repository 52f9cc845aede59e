"""Tests of a coordinated partition: how its log is loaded, and what its coordinator does later."""

import errno
import struct
from typing import Never

import pytest
import trio
from asking_coordinators import coordinator_of, records, replica_of
from clusters import cluster_of
from grouping import Asked, Sleeper
from spus import RunningSpu, World, led_elsewhere, running_spu
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.coordination.coordinated_partition import CoordinatedPartition
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.coordinator_records import GroupRecord, encode_record
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.upkeep.scrubbing import Scrubbing
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import HEADER_SIZE, read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.storage.directory import layout
from tailrace.storage.log.log import Log

ONE = {"offsets.topic.num.partitions": "1"}
COMMIT = GroupRecord(OffsetCommitKey("g", "late", 0), OffsetCommitValue(1))


async def partition_of(running: RunningSpu) -> CoordinatedPartition[Coordinator]:
    client = await running.client()
    await client.request(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    await wait_all_tasks_blocked()
    (found,) = running.spu.groups.loaded()
    return found


def commit(partition: CoordinatedPartition[Coordinator], topic: str, *offsets: int, metadata_bytes: int = 0) -> None:
    asked = Asked()

    def call(coordinator: Coordinator, moment: Moment) -> None:
        for offset in offsets:
            value = OffsetCommitValue(offset, metadata="x" * metadata_bytes)
            coordinator.output.append(GroupRecord(OffsetCommitKey("g", topic, 0), value))
        coordinator.output.respond(asked, "done")

    partition.ask(asked, call)
    assert asked.reply == "done"


async def replayed(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Returns the topics and offsets that the next coordinator loads."""
    seen: list[GroupRecord] = []
    monkeypatch.setattr(Coordinator, "replay", lambda self, record: seen.append(record))
    async with running_spu(world, ONE) as running:
        await wait_all_tasks_blocked()
        (partition,) = running.spu.groups.loaded()
        assert partition.failure is None
    return [
        (each.key.topic, each.value.offset) for each in seen if isinstance(each.key, OffsetCommitKey) and each.value
    ]


async def test_of_each_key_the_last_record_comes_back_in_their_order_over_all_segments(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with running_spu(world, ONE | {"offsets.topic.segment.bytes": "1048576"}) as running:
        partition = await partition_of(running)
        for offset in range(0, 40, 2):
            commit(partition, f"topic-{offset}", offset, offset + 1, metadata_bytes=32_000)
        commit(partition, "topic-0", 99)
        assert len(partition.replica.log.segments()) > 1
    expected = [(f"topic-{offset}", offset + 1) for offset in range(2, 40, 2)]
    assert await replayed(world, monkeypatch) == [*expected, ("topic-0", 99)]


async def test_an_unreadable_record_harms_no_other_group(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with running_spu(world, ONE) as running:
        partition = await partition_of(running)
        commit(partition, "before", 1)
        log = partition.replica.log
        broken = [Record(log.log_end, 0, b"\0\1\0", b"?"), Record(log.log_end + 1, 0, b"\x7f\x7fnot ours", b"?")]
        append(partition, build_batch(broken, base_offset=log.log_end, leader_epoch=partition.epoch))
        append(partition, bridge(log.log_end, partition.epoch))
        spoilt = build_batch([Record(log.log_end, 0, b"key", b"?")], base_offset=log.log_end)
        spoilt[HEADER_SIZE] = 0  # a record without any bytes
        append(partition, spoilt)
        commit(partition, "after", 2)
    assert await replayed(world, monkeypatch) == [("before", 1), ("after", 2)]


async def test_records_whose_bytes_are_not_those_that_were_written_are_not_believed(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with running_spu(world, ONE) as running:
        partition = await partition_of(running)
        commit(partition, "before", 1)
        log = partition.replica.log
        flipped = build_batch([Record(log.log_end, 0, *encode_record(COMMIT))], base_offset=log.log_end)
        flipped[flipped.index(b"late")] ^= 1  # the name of the topic
        append(partition, flipped)
        commit(partition, "after", 2)
    assert await replayed(world, monkeypatch) == [("before", 1), ("after", 2)]


@pytest.mark.parametrize("position", [5, 17, HEADER_SIZE + 3])
async def test_flipped_bits_are_repaired_before_they_are_read(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    """The positions of an offset far beyond the log end, a checksum, and a record."""
    world = World()
    async with running_spu(world, ONE) as running:
        partition = await partition_of(running)
        commit(partition, "before", 1)
        commit(partition, "flipped", 2)
        commit(partition, "after", 3)
        log = partition.replica.log
        (found,) = log.read_batches(log.log_end - 2, log.log_end - 1)
        path, position = found.file.path, found.position + position

    def flip() -> None:
        file = world.files.open(path)
        file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 1]))

    async def mend(self: Scrubbing, replica: Replica, offset: int) -> None:
        flip()

    monkeypatch.setattr(Scrubbing, "repair", mend)
    flip()
    assert await replayed(world, monkeypatch) == [("before", 1), ("flipped", 2), ("after", 3)]


@pytest.mark.parametrize("position, damage", [(8, b"\x00\x7f"), (8, b"\xff"), (0, b"\xff")])
async def test_a_log_that_cannot_be_walked_is_left_to_the_other_replicas(
    autojump_clock: object, position: int, damage: bytes
) -> None:
    """The batch is longer than the log, has a negative size, or lies before the log."""
    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)
        commit(partition, "topic", 1)
        replica, spu = partition.replica, running.spu
        directory = layout.replica_directory(spu.data_directory, replica.topic, replica.spec.topic_id, 0)
        (name,) = [name for name in spu.files.list(directory) if name.endswith(".log")]
        spec = replica.spec
        led_elsewhere(replica)
        spu.files.open(f"{directory}/{name}").write_at(position, damage)
        replica.use_spec(spec)
        await wait_all_tasks_blocked()
        assert not spu.groups.is_loading
        assert replica.offline_reason is not None


@pytest.mark.parametrize("fails_at", ["replay", "on_loaded", "append"])
async def test_records_that_raise_unexpected_errors_stop_only_their_groups(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    def fail(coordinator: Coordinator, *what: object) -> None:
        if fails_at != "append":
            raise ZeroDivisionError
        coordinator.output.append(GroupRecord(OffsetCommitKey("g" * 40_000, "topic", 0), OffsetCommitValue(1)))

    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)
        commit(partition, "topic", 1)
        monkeypatch.setattr(Coordinator, "replay" if fails_at == "replay" else "on_loaded", fail)
        running.spu.groups.restart(partition)
        await wait_all_tasks_blocked()
        asked = Asked()
        running.spu.groups.ask("g", asked, lambda coordinator, moment: None)
        assert asked.error is not None
        assert asked.error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_what_cannot_be_written_is_answered_and_the_log_asked_what_there_is(autojump_clock: object) -> None:
    async with running_spu(broker=ONE) as running:
        before = await partition_of(running)
        asked = Asked()

        def call(coordinator: Coordinator, moment: Moment) -> None:
            coordinator.output.append(GroupRecord(OffsetCommitKey("g" * 40_000, "topic", 0), OffsetCommitValue(1)))
            coordinator.output.respond(asked, "done")

        with pytest.raises(struct.error):
            before.ask(asked, call)
        assert asked.error is not None
        await wait_all_tasks_blocked()
        assert await partition_of(running) is not before


async def test_what_time_brings_is_appended_and_answered(autojump_clock: object) -> None:
    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)
        asked = Asked()
        end = partition.replica.log.log_end

        class Late(Sleeper):
            def on_deadline(self, moment: Moment) -> None:
                super().on_deadline(moment)
                partition.coordinator.output.append(COMMIT)
                partition.coordinator.output.respond(asked, "in time")

        partition.ask(Asked(), lambda coordinator, moment: coordinator.table.put(Late("late", moment.now + 5)))
        await trio.sleep(4.9)
        assert asked.is_waiting
        await trio.sleep(0.2)
        assert asked.reply == "in time"
        assert partition.replica.log.log_end == end + 1


def append(partition: CoordinatedPartition[Coordinator], batch: bytearray) -> None:
    partition.replica.append(batch, read_header(batch))


async def test_what_could_not_be_appended_for_want_of_an_open_file_was_not_decided(autojump_clock: object) -> None:
    async with running_spu(broker=ONE | {"connections.max.idle.ms": "-1"}) as running:
        partition = await partition_of(running)
        commit(partition, "t", 7)
        asked = Asked()

        def call(coordinator: Coordinator, moment: Moment) -> None:
            coordinator.output.append(GroupRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(8)))
            coordinator.output.respond(asked, "done")

        with pytest.MonkeyPatch.context() as now:
            now.setattr(Log, "append", _lacking_files)
            partition.ask(asked, call)
        assert asked.error is not None and asked.error.code == ErrorCode.NOT_COORDINATOR
        assert partition.replica.offline_reason is None
        await wait_all_tasks_blocked()
        (again,) = running.spu.groups.loaded()
        assert again is not partition
        commit(again, "t", 9)


def _lacking_files(*_: object) -> Never:
    raise OSError(errno.EMFILE, "too many open files")


# actions


def act(coordinator: Coordinator, asked: Asked, *, appends: bool = True) -> None:
    """Makes an action that answers when it is taken."""
    if appends:
        coordinator.output.append(COMMIT)
    coordinator.output.when_committed(lambda moment: coordinator.output.respond_at_once(asked, moment))


async def test_an_action_is_taken_after_the_commit_and_may_append(autojump_clock: object) -> None:
    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)
        asked, end = Asked(), partition.replica.log.log_end

        def call(coordinator: Coordinator, moment: Moment) -> None:
            coordinator.output.append(COMMIT)
            coordinator.output.when_committed(lambda moment: act(coordinator, asked))

        partition.ask(Asked(), call)
        assert asked.is_waiting, "it is taken in a turn of its own"
        await wait_all_tasks_blocked()
        assert isinstance(asked.reply, Moment)
        assert partition.replica.log.log_end == end + 2


async def test_an_action_waits_for_the_commit_longer_than_a_client(autojump_clock: object) -> None:
    """All that waits is refused while an SPU is isolated, but the coordinator may go on afterwards."""
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await cluster.kill_spu(3 - spu.id)
        await cluster.kill_sc()  # nothing commits any more
        acted, answered = list[Moment](), Asked()

        def call(coordinator: Coordinator, moment: Moment) -> None:
            coordinator.output.append(COMMIT)
            coordinator.output.when_committed(acted.append)
            coordinator.output.respond(answered, "done")

        spu.groups.ask("g", answered, call)
        replica = replica_of(spu)
        replica.refuse_waiters(replica.isolated_error())
        assert answered.error is not None
        await wait_all_tasks_blocked()
        assert not acted
        replica.on_committed(replica.log.log_end, replica.spec.epoch)
        await wait_all_tasks_blocked()
        assert len(acted) == 1


@pytest.mark.parametrize("goes_on", [False, True])
async def test_an_action_of_a_coordinator_that_has_ended_is_dropped(autojump_clock: object, goes_on: bool) -> None:
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await cluster.kill_spu(3 - spu.id)
        asked, waited = Asked(), Asked()
        spu.groups.ask("g", waited, lambda coordinator, moment: act(coordinator, asked))
        if goes_on:
            (partition,) = [each for each in spu.groups.loaded() if each.replica is replica_of(spu)]
            spu.groups.restart(partition)
            assert not partition.tell(lambda coordinator, moment: act(coordinator, asked))
        else:
            led_elsewhere(replica_of(spu), 3 - spu.id)
        await trio.sleep(60)
        assert asked.is_waiting


async def test_without_a_lease_an_action_waits_for_the_commit_of_a_barrier(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await cluster.kill_sc()
        await trio.sleep(5)
        asked = Asked()
        spu.groups.ask("g", Asked(), lambda coordinator, moment: act(coordinator, asked, appends=False))
        spu.end_turn()
        assert records(spu) == 1
        assert asked.is_waiting
        await trio.sleep(1)
        assert not asked.is_waiting


async def test_after_an_action_that_fails_the_coordinator_is_loaded_again(autojump_clock: object) -> None:
    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)

        def fail(moment: Moment) -> None:
            raise ZeroDivisionError

        assert partition.tell(lambda coordinator, moment: coordinator.output.when_committed(fail))
        await wait_all_tasks_blocked()
        assert partition.is_over
        assert await partition_of(running) is not partition


async def test_an_event_may_change_the_deadline(autojump_clock: object) -> None:
    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)
        sleeper = Sleeper("late", trio.current_time() + 5)
        assert partition.tell(lambda coordinator, moment: coordinator.table.put(sleeper))
        await trio.sleep(5.1)
        assert len(sleeper.woken) == 1


async def test_an_event_that_fails_is_not_told_again(autojump_clock: object) -> None:
    async with running_spu(broker=ONE) as running:
        partition = await partition_of(running)

        def fail(coordinator: Coordinator, moment: Moment) -> None:
            raise ZeroDivisionError

        assert not partition.tell(fail)
        assert not partition.tell(fail)
        assert partition.is_over
