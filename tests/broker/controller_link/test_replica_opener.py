import errno

import pytest
import trio
import trio.testing
from dispatching import ELSEWHERE, HERE, OTHER, TOPIC, DispatcherSpu, append, fail_for, held_topic
from msgspec.structs import replace
from simulation.files import SimulatedFiles
from spus import batch, lack_open_files
from structlog.testing import capture_logs

from tailrace.broker.controller_link.held_specs import HeldTopic
from tailrace.broker.controller_link.live_replica_reporter import LiveReplicaReporter
from tailrace.broker.replicas import replica_log
from tailrace.broker.replicas.replica_log import ReplicaLog
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.storage.directory import layout
from tailrace.storage.directory.checkpoints import (
    ReplicaKey,
    SavedHighWatermark,
    save_high_watermarks,
)
from tailrace.storage.log.log import Log


@pytest.fixture
async def spu(nursery: trio.Nursery) -> DispatcherSpu:
    return DispatcherSpu(nursery)


async def test_after_an_unclean_stop_logs_are_examined_and_counted(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    await replica.log.sync()
    whole = replica.log.size_bytes
    log = spu.files.open(f"{replica.log.directory}/{0:020d}.log")
    log.append(bytes(batch(b"torn"))[:20])
    again = spu.again(spu.files.crash("all"), clean=False)
    (recovered,) = await again.apply(held_topic())
    assert (recovered.log.log_end, recovered.log.size_bytes) == (1, whole)
    assert again.metrics.recovered_replicas == 1
    assert again.metrics.truncated_bytes == 20


async def test_an_index_that_is_lost_after_a_clean_stop_is_built_again_and_counted(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    for _ in range(50):  # 4096 bytes of log have an index entry
        append(replica, bytes(200))
    await replica.close()
    again = spu.again(spu.files, clean=False)
    again.closed.clean.add((TOPIC, 0))
    spu.files.remove(f"{replica.log.directory}/{0:020d}.index")
    (reopened,) = await again.apply(held_topic())
    assert again.metrics.rebuilt_indexes == 0
    with capture_logs() as logs:
        found = reopened.log.read(30, 1, 50, at_least_one=True)
    assert found is not None
    assert read_header(found.read()).base_offset == 30
    assert again.metrics.rebuilt_indexes == 1
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("index_rebuilt", "warning")
    assert line["path"] == f"{replica.log.directory}/{0:020d}.index"


async def test_what_an_unclean_stop_left_in_the_page_cache_reaches_the_disk(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    append(replica, b"a")
    (recovered,) = await spu.again(spu.files.crash("all"), clean=False).apply(held_topic())
    await trio.testing.wait_all_tasks_blocked()
    assert recovered.log.synced_end == 1


async def test_a_replica_made_after_the_start_has_no_past_to_examine(nursery: trio.Nursery) -> None:
    spu = DispatcherSpu(nursery, clean=False)
    await spu.apply()
    await spu.change(held_topic())
    assert spu.metrics.recovered_replicas == 0


async def test_the_clean_shutdown_mark_holds_once_and_for_no_orphans(
    spu: DispatcherSpu,
) -> None:
    await spu.change(held_topic(partitions=(0, 1)))
    assert spu.closed.clean == {(TOPIC, 2), *((OTHER, number) for number in range(3))}
    await spu.apply(held_topic(partitions=(0, 1)))
    assert spu.closed.clean == set()


async def test_a_log_is_examined_that_was_not_closed_though_others_were(spu: DispatcherSpu) -> None:
    """After a power failure the partition had moved away, and the SPU stopped cleanly without it."""
    for replica in await spu.apply(held_topic(partitions=(0, 1))):
        append(replica, b"a")
        await replica.close()
    again = spu.again(spu.files.crash("all"), clean=False)
    again.closed.clean.add((TOPIC, 1))
    await again.apply(held_topic(partitions=(0, 1)))
    assert again.metrics.recovered_replicas == 1


async def test_with_other_live_replicas_only_what_was_known_to_be_committed_is(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic())
    for value in (b"a", b"b", b"c"):
        append(replica, value)
    await replica.close()
    await save_high_watermarks(spu.files, "/data", {(TOPIC, 0): SavedHighWatermark(2, Epoch(1))})
    (alone,) = await spu.again().apply(held_topic())
    assert alone.saved_high_watermark == SavedHighWatermark(3, NO_EPOCH), "alone, all of it is"
    (replica,) = await spu.again().apply(held_topic(live=(HERE, ELSEWHERE)))
    assert replica.saved_high_watermark == SavedHighWatermark(2, Epoch(1))


async def test_a_log_that_starts_above_the_saved_high_watermark_has_no_epoch_for_it(
    spu: DispatcherSpu,
) -> None:
    (replica,) = await spu.apply(held_topic())
    for value in (b"a", b"b", b"c"):
        append(replica, value)
    await replica.log.advance_log_start(2)
    await replica.close()
    await save_high_watermarks(spu.files, "/data", {(TOPIC, 0): SavedHighWatermark(1, Epoch(1))})
    (replica,) = await spu.again().apply(held_topic(live=(HERE, ELSEWHERE)))
    assert replica.saved_high_watermark == SavedHighWatermark(2, NO_EPOCH)


async def test_a_log_of_a_later_epoch_is_not_led_in_an_earlier_one(spu: DispatcherSpu) -> None:
    (replica,) = await spu.apply(held_topic(epoch=7))
    append(replica, b"a")
    await replica.close()
    again = spu.again()
    assert await again.apply(held_topic(epoch=6)) == []
    assert again.replicas.damaged[TOPIC, 0].reason == "its log is at epoch 7, and epoch 6 was assigned"
    (opened,) = await again.apply(held_topic(epoch=8))
    assert opened.log.log_end == 1


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("call", ["list", "make_directories"])
async def test_a_log_that_does_not_open_takes_no_neighbour_with_it(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch, call: str, damaged: int
) -> None:
    directory = layout.replica_directory("/data", "t", TOPIC, damaged)
    spu.files.make_directories(directory)
    tried = fail_for(monkeypatch, spu.files, call, directory)
    given_up: list[ReplicaKey] = []
    monkeypatch.setattr(LiveReplicaReporter, "on_failed", lambda _, key: given_up.append(key))
    (whole,) = await spu.apply(held_topic(partitions=(0, 1)))
    assert given_up == [(TOPIC, damaged)]
    assert whole.partition == 1 - damaged
    assert spu.replicas.damaged[TOPIC, damaged].reason == "the disk does not answer"
    await spu.apply(held_topic(partitions=(0, 1)))
    assert len(tried) == 1, "it is not looked through again for nothing"
    await spu.change(held_topic(partitions=(0, 1), epoch=1))
    assert len(tried) == 2, "an election is a reason"
    await spu.apply()
    assert not spu.replicas.damaged


async def test_a_log_for_which_no_file_could_be_opened_is_tried_again_whenever_it_is_named(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as now:
        used_up = OSError(errno.EMFILE, "Too many open files")
        directory = layout.replica_directory("/data", "t", TOPIC, 0)
        spu.files.make_directories(directory)
        fail_for(now, spu.files, "list", directory, used_up)
        assert await spu.apply(held_topic()) == []
    assert len(await spu.apply(held_topic())) == 1


async def test_so_is_one_that_opened_and_could_not_be_looked_through(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as now:
        now.setattr(ReplicaLog, "load_producers", lack_open_files)
        assert await spu.apply(held_topic()) == []
    assert len(await spu.apply(held_topic())) == 1


async def test_a_log_that_is_not_led_and_does_not_close_takes_no_neighbour_with_it(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica,) = await spu.apply(held_topic(epoch=7))
    append(replica, b"a")
    await replica.close()
    again = spu.again()

    async def refuse(*_: object, clean: bool) -> None:
        raise OSError("the disk does not answer")

    monkeypatch.setattr(Log, "close", refuse)
    assert [each.topic for each in await again.apply(held_topic(epoch=6), held_topic(OTHER, "other"))] == ["other"]
    assert again.replicas.damaged[TOPIC, 0].reason == "its log is at epoch 7, and epoch 6 was assigned"


async def test_a_log_with_a_header_that_is_none_is_one_that_did_not_open(spu: DispatcherSpu) -> None:
    """The snapshot of its producers is lost as well, so that opening reads sealed segments batch by batch."""
    small = {"segment.bytes": "1048576"}
    (replica,) = await spu.apply(held_topic(configs=small))
    for sequence in range(3):
        append(replica, bytes(600_000), producer_id=7, producer_epoch=0, base_sequence=sequence)
    await replica.log.sync()
    directory = replica.log.directory
    for name in spu.files.list(directory):
        if name.endswith(".producers"):
            spu.files.remove(f"{directory}/{name}")
    spu.files.open(f"{directory}/{0:020d}.log").write_at(16, b"\x07")  # the magic byte of its batch
    again = spu.again(clean=False)
    assert [each.topic for each in await again.apply(held_topic(configs=small), held_topic(OTHER, "other"))] == [
        "other"
    ]
    assert "magic" in again.replicas.damaged[TOPIC, 0].reason


async def test_others_have_their_turn_while_a_long_log_is_looked_through_for_its_high_watermark(
    spu: DispatcherSpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_log, "SCANNED_PER_TURN", 2)
    topic = held_topic(live=(HERE, ELSEWHERE))
    (replica,) = await spu.apply(topic)
    for _ in range(9):
        append(replica, b"a")
    await replica.close()
    again = spu.again()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.apply, topic)
        for _ in range(4):
            await trio.lowlevel.checkpoint()
            assert not list(again.replicas)
    (replica,) = again.replicas
    assert (replica.high_watermark, replica.log.log_end) == (0, 9)


async def _with_flipped_record(spu: DispatcherSpu, topic: HeldTopic, *, has_promised: bool = True) -> DispatcherSpu:
    """Restarts after kill -9 with three batches, of which the second is corrupt."""
    (replica,) = await spu.apply(topic)
    for value in (b"a", b"b", b"c"):
        append(replica, value)
    if has_promised:
        await spu.promises.promise(replica.key, Epoch(0))
    directory = replica.log.directory
    (name,) = (name for name in spu.files.list(directory) if name.endswith(".log"))
    file = spu.files.open(f"{directory}/{name}")
    file.write_at(2 * file.size() // 3 - 1, b"?")
    return spu.again(clean=False)


async def test_a_log_that_recovery_would_truncate_is_not_opened_as_a_live_replica(
    spu: DispatcherSpu,
) -> None:
    live = held_topic(live=(HERE, ELSEWHERE))
    again = await _with_flipped_record(spu, live)
    assert await again.apply(live) == []
    assert "are corrupt" in again.replicas.damaged[TOPIC, 0].reason
    for clean in (False, True):
        again = again.again(clean=clean)
        assert await again.apply(live) == [], "it is remembered"
    (replica,) = await again.apply(held_topic(live=(ELSEWHERE,), leader=ELSEWHERE))
    assert replica.log.log_end == 1
    assert again.promises.is_in_doubt(replica.key)
    assert await again.again(clean=False).apply(live) != [], "it was told to begin anew"


async def test_whenever_it_is_killed_nothing_goes_from_such_a_log_before_that_is_remembered(spu: DispatcherSpu) -> None:
    live = held_topic(live=(HERE, ELSEWHERE))
    again = await _with_flipped_record(spu, live)
    states: list[SimulatedFiles] = []
    again.files.on_operation = lambda: states.append(again.files.crash("all"))
    await again.apply(live)
    (replica,) = await again.again(clean=False).apply(held_topic(live=(ELSEWHERE,), leader=ELSEWHERE))
    states += [spu.files.crash("all")]
    assert replica.log.log_end == 1 and len(states) > 5
    for state in states:
        after = spu.again(state, clean=False)
        assert await after.apply(live) == [] or after.promises.is_in_doubt(replica.key)


@pytest.mark.parametrize("known_store", ["store", "the one before"])
async def test_a_store_that_never_promised_anything_opens_such_a_log_if_another_one_is_known_to_have_it_all(
    spu: DispatcherSpu, known_store: str
) -> None:
    """The partition had no other replica until the machine stopped."""
    again = await _with_flipped_record(spu, held_topic(), has_promised=False)
    topic = held_topic(live=(HERE, ELSEWHERE))
    (spec,) = topic.partitions
    live = replace(topic, partitions=(replace(spec, live_incarnations={HERE: known_store}),))
    is_refused = known_store == "store"
    assert [replica.log.log_end for replica in await again.apply(live)] == ([] if is_refused else [1])
    assert again.parking.was_removed((TOPIC, 0)) == is_refused


async def test_in_doubt_what_a_sync_may_have_failed_to_write_is_written_again(spu: DispatcherSpu) -> None:
    """Doubt also outlives the process that knew its cause."""
    live = held_topic(live=(HERE, ELSEWHERE))
    (replica,) = await spu.apply(live)
    append(replica, b"a")
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


async def test_a_store_that_is_in_doubt_anyway_opens_such_a_log(spu: DispatcherSpu) -> None:
    live = held_topic(live=(HERE, ELSEWHERE))
    again = await _with_flipped_record(spu, live)
    await again.promises.doubt_all()
    (replica,) = await again.apply(live)
    assert replica.log.log_end == 1


async def test_a_single_replica_goes_on_with_what_is_left(spu: DispatcherSpu) -> None:
    again = await _with_flipped_record(spu, held_topic())
    (replica,) = await again.apply(held_topic())
    assert (replica.log.log_end, replica.is_leader) == (1, True)
