"""What happens to flipped bits, with and without intact copies elsewhere, and how fast segments are scrubbed."""

import errno
from collections.abc import Callable, Sequence
from struct import pack_into

import pytest
import structlog
import trio
import trio.testing
from batch_samples import header_of, make_batch
from logs import log_at
from msgspec import Struct
from msgspec.structs import replace
from simulation.files import SimulatedFile, SimulatedFiles
from structlog.testing import capture_logs

from tailrace.broker.copies.store_answers import membership_of
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.quorum_read import StoreAnswer
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.upkeep import scrubbing
from tailrace.broker.upkeep.scrubbing import Scrubbing
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import crc_of
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.storage.log.log import Log
from tailrace.storage.producers.producer_snapshots import ProducersUnknownError
from tailrace.storage.segments import batch_scan, segment_scrub

HERE, EMPTY, OTHER = COPY_SET = tuple(map(SpuId, (1, 2, 3)))
BATCH_BYTES, BATCHES = 100, 20
SEGMENT_BYTES = 10 * BATCH_BYTES
PASS_BYTES = 2 * SEGMENT_BYTES + BATCH_BYTES


async def _replica(spu: SpuId, files: SimulatedFiles) -> Replica:
    """A replica with two sealed segments on the disk, and an open one."""
    spec = PartitionSpec(TopicId(int=7), "t", 0, HERE, Epoch(5), COPY_SET, COPY_SET)
    settings = settings_of({"internal.segment.bytes": str(SEGMENT_BYTES)}, BrokerConfigs({}))
    files.make_directories("/data")
    log = log_at(files, "/data/topics/t/7/0", settings.log, clean=True)
    for number in range(BATCHES + 1):
        batch = make_batch(number, size=BATCH_BYTES, epoch=5)
        log.append(batch, header_of(batch))
    await log.sync()
    return Replica(spu, spec, log, settings, log.log_end)


class CopiesOf:
    """The copies of two other SPUs; the first one lacks everything, or has a different, uncommitted log."""

    own_id = HERE

    def __init__(self, other: Replica | None) -> None:
        self.answers = True
        self._other = other
        self.other_end = 0 if other is None else other.high_watermark
        """The batches below the high watermark of an SPU."""
        self.has_something_else = False
        self.looked_at: Callable[[], bytes] = bytes
        """The batches of each SPU at the offset of a damaged tail."""

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        return [] if self._other is None else [EMPTY, OTHER]

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> bytes:
        await trio.lowlevel.checkpoint()
        assert self._other is not None
        if spu == EMPTY:
            has_it = self.has_something_else and not is_committed
            return bytes(make_batch(offset, size=BATCH_BYTES + offset % 2, timestamp=1)) if has_it else b""
        end = self.other_end if is_committed else self._other.log.log_end
        found = self._other.log.read(offset, 1, end, at_least_one=True)
        return b"" if found is None else found.read()

    async def inspect(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, bytes] | None:
        await trio.lowlevel.checkpoint()
        answer = StoreAnswer(spu, membership_of(replica), Epoch(5), False, 0, 0, 0, 0, ())
        return (answer, self.looked_at()) if self.answers else None


class Bench(Struct):
    files: SimulatedFiles
    replica: Replica
    copies: CopiesOf
    metrics: BrokerMetrics
    configs: BrokerConfigs
    scrubbing: Scrubbing

    def content(self) -> list[bytes]:
        return [each.reader.log.get().read_at(0, 10_000) for each in self.replica.log.synced_segments()]

    @property
    def open_file(self) -> SimulatedFile:
        log = self.replica.log
        (last,) = log.read_batches(BATCHES, log.log_end)
        assert isinstance(last.file, SimulatedFile)
        return last.file

    def append(self, count: int = 1, size: int = BATCH_BYTES) -> None:
        log = self.replica.log
        for number in range(log.log_end, log.log_end + count):
            batch = make_batch(number, size=size, epoch=5)
            log.append(batch, header_of(batch))

    def flip(self, segment: int, position: int) -> None:
        file = self.replica.log.synced_segments()[segment].reader.log.get()
        (byte,) = file.read_at(position, 1)
        file.write_at(position, bytes([byte ^ 4]))


async def _bench(*, has_copies: bool = True, **configs: str) -> Bench:
    files, metrics = SimulatedFiles(), BrokerMetrics()
    replica = await _replica(HERE, files)
    copies = CopiesOf(await _replica(OTHER, SimulatedFiles()) if has_copies else None)
    replicas = ReplicaRegistry(HERE, Cluster())
    replicas.add(replica)
    broker_configs = BrokerConfigs({name.replace("_", "."): value for name, value in configs.items()})
    scrubbing = Scrubbing(replicas, copies, broker_configs, metrics, structlog.get_logger())
    return Bench(files, replica, copies, metrics, broker_configs, scrubbing)


async def test_sound_segments_are_read_and_left_alone(autojump_clock: object) -> None:
    bench = await _bench()
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert logs == []
    assert bench.metrics.scrubbed_bytes == PASS_BYTES
    assert bench.metrics.damaged_batches == 0


async def test_flipped_bits_are_restored_from_an_spu_that_has_them(autojump_clock: object) -> None:
    bench = await _bench()
    sound = bench.content()
    bench.flip(0, 3 * BATCH_BYTES + 70)
    bench.flip(1, 80)
    bench.flip(1, 4 * BATCH_BYTES + 8)
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert bench.content() == sound
    assert [(each["event"], each["segment"], each["positions"], each["copied_from"]) for each in logs] == [
        ("segment_repaired", 0, [300], [OTHER]),
        ("segment_repaired", 10, [0, 400], [OTHER]),
    ]
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (3, 3)


@pytest.mark.parametrize("position", [70, 8, 7, 15], ids=["a record", "a length", "an offset", "an epoch"])
async def test_an_open_segment_is_sealed_before_its_repair(position: int, autojump_clock: object) -> None:
    bench = await _bench()
    sound = bench.open_file.read_at(0, BATCH_BYTES)
    bench.open_file.write_at(position, bytes([sound[position] ^ 2]))
    await bench.scrubbing.scrub_all()
    assert [each.base for each in bench.replica.log.segments()] == [0, 10, 20, 21]
    assert bench.content()[2] == sound
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (1, 1)
    bench.append()
    assert bench.replica.log.log_end == BATCHES + 2


async def test_an_open_segment_is_repaired_while_open_if_not_all_before_it_is_committed(
    autojump_clock: object,
) -> None:
    bench = await _bench()
    sound = bench.open_file.read_at(0, BATCH_BYTES)
    bench.open_file.write_at(70, bytes([sound[70] ^ 2]))
    bench.replica.high_watermark = BATCHES - 1
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert len(bench.replica.log.segments()) == 3
    assert bench.open_file.read_at(0, BATCH_BYTES) == sound
    assert [(each["event"], each["segment"], each["copied_from"]) for each in logs] == [
        ("segment_repaired", BATCHES, [OTHER])
    ]
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (1, 1)


async def test_wrong_times_of_a_segment_are_corrected(autojump_clock: object) -> None:
    bench = await _bench()
    segment = bench.replica.log.synced_segments()[1]
    segment.facts = replace(segment.facts, max_timestamp=5)
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
        await bench.scrubbing.scrub_all()
    assert [(each["event"], each["segment"], each["largest"]) for each in logs] == [("segment_times_corrected", 10, 0)]
    assert segment.facts.max_timestamp == 0
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (0, 0)


async def test_records_appended_while_an_open_segment_is_read_are_not_missed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    monkeypatch.setattr(segment_scrub, "STEP_BYTES", BATCH_BYTES)
    bench = await _bench(scrub_max_bytes_per_second="100")
    bench.append(3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scrubbing.scrub_all)
        await trio.sleep(2 * SEGMENT_BYTES / 100 + 1.5)
        bench.append(2)
    assert len(bench.replica.log.segments()) == 3
    assert bench.metrics.scrubbed_bytes == PASS_BYTES + 3 * BATCH_BYTES
    assert (bench.metrics.damaged_batches, bench.replica.offline_reason) == (0, None)


@pytest.mark.parametrize("change", ["cut", "stamped"])
async def test_an_open_segment_that_is_changed_meanwhile_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object, change: str
) -> None:
    monkeypatch.setattr(segment_scrub, "STEP_BYTES", BATCH_BYTES)
    monkeypatch.setattr(batch_scan, "PIECE_BYTES", BATCH_BYTES)
    bench = await _bench(scrub_max_bytes_per_second="100")
    bench.append(5)
    log = bench.replica.log
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scrubbing.scrub_all)
        await trio.sleep(2 * SEGMENT_BYTES / 100 + 1.5)
        if change == "cut":
            await log.truncate(BATCHES + 2)
            bench.append(4, BATCH_BYTES + 20)
        else:
            await log.restamp(BATCHES + 3, BATCHES + 6, 6)
    assert len(log.segments()) == 3
    assert bench.metrics.scrubbed_bytes < PASS_BYTES + 5 * BATCH_BYTES
    assert (bench.metrics.damaged_batches, bench.replica.offline_reason) == (0, None)


@pytest.mark.parametrize(("number", "is_offline"), [(errno.EMFILE, False), (errno.EIO, True)])
async def test_an_open_segment_that_cannot_be_opened_does_not_end_the_pass(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object, number: int, is_offline: bool
) -> None:
    bench = await _bench()

    def fail(log: Log) -> None:
        raise OSError(number, "it cannot be opened")

    monkeypatch.setattr(Log, "check_open_segment", fail)
    await bench.scrubbing.scrub_all()
    assert (bench.replica.offline_reason is not None) == is_offline


async def test_damage_without_an_intact_copy_is_logged_and_the_rest_is_served(autojump_clock: object) -> None:
    bench = await _bench(has_copies=False)
    bench.flip(1, 3 * BATCH_BYTES + 70)
    bench.flip(1, 5 * BATCH_BYTES + 70)
    before = bench.content()
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    (told,) = logs
    assert (told["event"], told["segment"], told["offset"], told["position"]) == ("segment_damaged", 10, 13, 300)
    assert bench.content() == before
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (2, 0)
    assert bench.replica.offline_reason is None


async def test_an_uncommitted_copy_is_used_if_the_segment_matches_its_checksum(autojump_clock: object) -> None:
    """Without a leader the high watermark is unknown, and the first SPU may have a different log."""
    bench = await _bench()
    sound = bench.content()
    bench.copies.other_end = 0
    bench.copies.has_something_else = True
    for position in (16, 3 * BATCH_BYTES + 70):
        bench.flip(0, position)
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert bench.content() == sound
    assert [(each["event"], each["positions"], each["copied_from"]) for each in logs] == [
        ("segment_repaired", [0, 300], [OTHER])
    ]
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (2, 2)


@pytest.mark.parametrize("has_copies", [True, False])
async def test_an_offset_and_an_epoch_are_repaired_without_a_copy(has_copies: bool, autojump_clock: object) -> None:
    bench = await _bench(has_copies=has_copies)
    sound = bench.content()
    bench.flip(0, 3 * BATCH_BYTES + 7)
    bench.flip(0, 6 * BATCH_BYTES + 15)
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert bench.content() == sound
    assert [(each["event"], each["positions"], each["copied_from"]) for each in logs] == [
        ("segment_repaired", [300, 600], [])
    ]
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (2, 2)


async def test_at_the_start_of_an_epoch_the_manifest_tells_the_epoch(autojump_clock: object) -> None:
    bench = await _bench(has_copies=False)
    log = bench.replica.log
    await log.truncate_fully(0)
    for offset, epoch in enumerate((0, 2, 6, 6, 7)):
        batch = build_batch([Record(offset, 0, b"%d" % offset, b"")], base_offset=offset, leader_epoch=epoch)
        log.append(batch, header_of(batch))
    await log.compact(0, 4)
    (sound,) = bench.content()
    bench.flip(0, len(sound) // 4 * 3 + 15)
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert bench.content() == [sound]
    assert [(each["event"], each["positions"]) for each in logs] == [("segment_repaired", [len(sound) // 4 * 3])]
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (1, 1)


async def test_a_damaged_header_that_cannot_be_located_is_logged(autojump_clock: object) -> None:
    bench = await _bench()
    bench.flip(0, 3 * BATCH_BYTES + 15)
    bench.flip(0, 4 * BATCH_BYTES + 15)
    before = bench.content()
    with capture_logs() as logs:
        await bench.scrubbing.scrub_all()
    assert [each["event"] for each in logs] == ["segment_damaged"]
    assert bench.content() == before
    assert (bench.metrics.damaged_batches, bench.metrics.mended_batches) == (0, 0)


async def test_a_log_that_is_closed_meanwhile_stays_closed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """Until it is closed, an epoch seems to be damaged."""
    monkeypatch.setattr(segment_scrub, "STEP_BYTES", BATCH_BYTES)
    bench = await _bench(scrub_max_bytes_per_second="100")
    bench.flip(0, 3 * BATCH_BYTES + 15)
    log = bench.replica.log
    segments = log.synced_segments()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scrubbing.scrub_all)
        await trio.sleep(6.5)
        await bench.replica.close()
    assert [each.reader.log._file for each in segments] == [None, None]


async def test_a_disk_that_fails_takes_the_replica_offline(autojump_clock: object) -> None:
    bench = await _bench()
    bench.flip(0, 3 * BATCH_BYTES + 70)
    bench.files.syncs_fail = True
    await bench.scrubbing.scrub_all()
    assert bench.replica.offline_reason is not None


async def test_scrubbing_keeps_to_its_bytes_per_second(autojump_clock: object) -> None:
    bench = await _bench(scrub_max_bytes_per_second="100")
    begun = trio.current_time()
    await bench.scrubbing.scrub_all()
    assert trio.current_time() - begun == pytest.approx(PASS_BYTES / 100)


async def test_scrubbing_can_be_switched_off_at_any_time(autojump_clock: object) -> None:
    bench = await _bench()
    bench.configs.use_dynamic(own={"scrub.max.bytes.per.second": "0"}, default={})
    await bench.scrubbing.scrub_all()
    assert bench.metrics.scrubbed_bytes == 0


@pytest.mark.parametrize(("interval_ms", "seconds", "passes"), [(5000, 22, 4), (3_600_000, 3000, 1)])
async def test_passes_begin_at_intervals(autojump_clock: object, interval_ms: int, seconds: int, passes: int) -> None:
    bench = await _bench(scrub_interval_ms=str(interval_ms))
    with trio.move_on_after(seconds):
        await bench.scrubbing.run()
    assert bench.metrics.scrubbed_bytes == passes * PASS_BYTES


async def _looked_into(bench: Bench, offset: int) -> None:
    """Waits for everything that follows from a suspicion at once."""
    bench.scrubbing.on_suspected(bench.replica, offset)
    await trio.testing.wait_all_tasks_blocked()


async def test_a_suspected_replica_is_repaired_at_once(nursery: trio.Nursery, autojump_clock: object) -> None:
    bench = await _bench(scrub_max_bytes_per_second="1")
    sound = bench.content()
    bench.flip(1, 3 * BATCH_BYTES + 70)
    nursery.start_soon(bench.scrubbing.run)
    before = trio.current_time()
    await _looked_into(bench, 11)
    assert bench.content() == sound
    assert trio.current_time() == before
    assert bench.metrics.scrubbed_bytes == SEGMENT_BYTES - BATCH_BYTES


def _lose_end(bench: Bench) -> None:
    """Damages an uncommitted batch in the open segment, which two others follow."""
    bench.replica.high_watermark = BATCHES - 1
    bench.append(2)
    sound = bench.open_file.read_at(0, BATCH_BYTES)
    bench.open_file.write_at(70, bytes([sound[70] ^ 2]))


async def test_a_damaged_tail_that_no_other_store_has_is_truncated(autojump_clock: object) -> None:
    bench = await _bench(has_copies=False)
    _lose_end(bench)
    bench.copies.answers = False
    assert not await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5)
    assert bench.replica.log.log_end == BATCHES + 3
    bench.copies.answers = True
    with capture_logs() as logs:
        assert await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5)
    assert bench.replica.log.log_end == BATCHES
    assert [(each["event"], each.get("to")) for each in logs] == [
        ("segment_damaged", None),
        ("damaged_tail_truncated", BATCHES),
    ]
    assert not await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5)


async def test_records_that_others_have_or_that_are_committed_are_not_truncated(autojump_clock: object) -> None:
    bench = await _bench()
    _lose_end(bench)
    assert not await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5), "it was repaired"
    assert bench.replica.log.log_end == BATCHES + 3
    committed = await _bench(has_copies=False)
    _lose_end(committed)
    committed.replica.high_watermark = BATCHES + 1
    assert not await committed.scrubbing.repair_or_truncate(committed.replica, BATCHES - 5)
    assert committed.replica.log.log_end == BATCHES + 3


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("opens", [True, False])
async def test_a_tail_that_cannot_be_compared_is_not_truncated(
    nursery: trio.Nursery, autojump_clock: object, leads: bool, opens: bool
) -> None:
    bench = await _bench(has_copies=False)
    bench.replica.is_leader = leads
    bench.replica.high_watermark = BATCHES - 5
    bench.flip(1, 6 * BATCH_BYTES + 70)

    def fail() -> bytes:
        """Fails while other SPUs are asked: the disk breaks, or no descriptor is free."""
        if opens:
            bench.files.reads_fail = True
        else:
            bench.files.opens_left = 0
            bench.replica.log.synced_segments()[1].reader.log.close()
        return bytes(make_batch(BATCHES - 4, size=BATCH_BYTES, timestamp=1))

    bench.copies.looked_at = fail
    if leads:
        nursery.start_soon(bench.scrubbing.run)
        await _looked_into(bench, BATCHES - 5)
    else:
        assert not await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5)
    assert bench.replica.offline_reason is None
    assert bench.replica.log.log_end == BATCHES + 1


async def test_a_tail_is_truncated_even_if_the_producers_are_unknown_then(autojump_clock: object) -> None:
    """Another header is damaged, which the next opening of the log finds."""
    bench = await _bench(has_copies=False)
    log = bench.replica.log
    await log.truncate_fully(0)
    for sequence in range(1, BATCHES + 2):
        batch = make_batch(log.log_end, size=BATCH_BYTES, epoch=5)
        pack_into(">qhi", batch, 43, 7 + sequence // (BATCHES + 1), 0, sequence)
        pack_into(">I", batch, 17, crc_of(batch, 0, BATCH_BYTES))
        log.append(batch, header_of(batch))
    await log.sync()
    bench.flip(0, 16)
    for end in (10, 20):
        bench.files.remove(f"{log.directory}/{end:020}.producers")
    _lose_end(bench)
    assert await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5)
    assert log.log_end == BATCHES
    with pytest.raises(ProducersUnknownError):
        log.load_producers()


async def test_nothing_is_truncated_if_the_index_cannot_be_rebuilt(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    bench = await _bench(has_copies=False)
    _lose_end(bench)

    async def fail(*_: object) -> bool:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the index cannot be built again")

    monkeypatch.setattr(Log, "truncate_before_damage", fail)
    assert not await bench.scrubbing.repair_or_truncate(bench.replica, BATCHES - 5)


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("answers", [True, False])
async def test_a_leader_with_a_damaged_tail_that_no_other_store_has_goes_offline(
    autojump_clock: object, leads: bool, answers: bool
) -> None:
    """The tail is then truncated, and another replica leads. A follower's tail is truncated by its leader."""
    bench = await _bench(has_copies=False)
    _lose_end(bench)
    bench.copies.answers = answers
    bench.replica.is_leader = leads
    await bench.scrubbing.scrub_all()
    assert (bench.replica.offline_reason is not None) == (leads and answers)
    assert bench.replica.damaged_from == (BATCHES if leads and answers else None)


@pytest.mark.parametrize("is_committed", [True, False])
async def test_its_segment_may_be_sealed(autojump_clock: object, is_committed: bool) -> None:
    bench = await _bench(has_copies=False)
    bench.replica.is_leader = True
    bench.replica.high_watermark = BATCHES if is_committed else BATCHES - 5
    bench.flip(1, 6 * BATCH_BYTES + 70)
    await bench.scrubbing.scrub_all()
    assert bench.replica.damaged_from == (None if is_committed else BATCHES - 4)


async def test_a_suspected_leader_with_such_a_tail_goes_offline(nursery: trio.Nursery, autojump_clock: object) -> None:
    bench = await _bench(has_copies=False)
    _lose_end(bench)
    bench.replica.is_leader = True
    nursery.start_soon(bench.scrubbing.run)
    await trio.testing.wait_all_tasks_blocked()
    bench.scrubbing.on_suspected(bench.replica, BATCHES)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.replica.damaged_from == BATCHES


async def test_a_suspicion_reads_no_intact_log_to_its_end(nursery: trio.Nursery, autojump_clock: object) -> None:
    bench = await _bench()
    nursery.start_soon(bench.scrubbing.run)
    await _looked_into(bench, 11)
    assert bench.metrics.scrubbed_bytes == 0


async def test_a_replica_that_cannot_be_repaired_is_not_read_repeatedly(
    nursery: trio.Nursery, autojump_clock: object
) -> None:
    bench = await _bench(has_copies=False)
    bench.flip(1, 3 * BATCH_BYTES + 70)
    nursery.start_soon(bench.scrubbing.run)
    with capture_logs() as logs:
        for _ in range(3):
            await _looked_into(bench, 11)
        assert [each["event"] for each in logs] == ["segment_damaged"]
        await trio.sleep(scrubbing.SUSPECTED_AGAIN_SECONDS)
        logs.clear()
        await _looked_into(bench, 11)
        assert [each["event"] for each in logs] == ["segment_damaged"]


async def test_suspicions_are_ignored_if_scrubbing_is_off(nursery: trio.Nursery, autojump_clock: object) -> None:
    bench = await _bench(scrub_max_bytes_per_second="0")
    bench.flip(1, 3 * BATCH_BYTES + 70)
    nursery.start_soon(bench.scrubbing.run)
    await _looked_into(bench, 11)
    assert bench.metrics.damaged_batches == 0
