"""Flipped bits in a sealed segment: found wherever they are, and mended only by the very bytes that were there."""

import errno
from random import Random

import pytest
from batch_samples import header_of, make_batch
from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments import segment_scrub
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_scrub import DamagedBatch, OpenSegmentPrefix, SegmentScrub
from tailrace.storage.verification.replica_verification import ReplicaVerification

pytestmark = pytest.mark.trio

COUNT, SIZE = 10, 90
DIRECTORY = "/data/topics/events/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
COPIES = {5 * number: make_batch(5 * number, 5, size=SIZE, epoch=3) for number in range(COUNT)}

JOINED = {
    offset: build_batch([Record(offset, 0, b"%d" % offset, b"x" * 21)], base_offset=offset, leader_epoch=epoch)
    for offset, epoch in enumerate((3, 3, 3, 4, 5, 5, 7, 7, 7, 7))
}


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/data")
    return files


@pytest.fixture
async def log(files: SimulatedFiles) -> Log:
    """One sealed segment that is on the disk, and an open one."""
    config = LogConfig(segment_bytes_max=COUNT * SIZE, index_interval_bytes=100)
    log = log_at(files, DIRECTORY, config, clean=False)
    for batch in (*COPIES.values(), make_batch(log.log_end + 50, epoch=3)):
        log.append(batch, header_of(batch))
    await log.sync()
    return log


def segment_of(log: Log) -> SealedSegment:
    (segment,) = log.synced_segments()
    return segment


def flip(log: Log, position: int, bit: int = 0) -> None:
    file = segment_of(log).reader.log.get()
    (byte,) = file.read_at(position, 1)
    file.write_at(position, bytes([byte ^ 1 << bit]))


def content(log: Log) -> bytes:
    return segment_of(log).reader.log.get().read_at(0, 10_000)


def scrub(
    log: Log, copies: dict[int, bytearray] | None = None, *, headers_of: SegmentScrub | None = None
) -> tuple[SegmentScrub, list[DamagedBatch]]:
    """To the end, with these copies at hand; and with the headers that the one before says there should be."""
    if headers_of is not None:
        tried = [scrub_to_end(other, copies) for other in headers_of.with_other_headers()]
        return next((each for each in tried if each[0].is_proven), tried[0])
    return scrub_to_end(SegmentScrub(segment_of(log)), copies)


def scrub_to_end(running: SegmentScrub, copies: dict[int, bytearray] | None) -> tuple[SegmentScrub, list[DamagedBatch]]:
    found = []
    while not running.is_at_end:
        damaged = running.step()
        if damaged is not None:
            found.append(damaged)
            copy = (copies or {}).get(damaged.offset)
            if copy is None or not running.repair(damaged, copy):
                running.skip(damaged)
    return running, found


async def test_a_sound_segment_is_proven(log: Log) -> None:
    whole, found = scrub(log)
    assert (whole.is_proven, found, whole.repairs, whole.is_outdated) == (True, [], {}, False)
    assert whole.position == segment_of(log).size == COUNT * SIZE


async def test_it_can_rest_between_batches(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scrub, "STEP_BYTES", 2 * SIZE)
    running, positions = SegmentScrub(segment_of(log)), []
    while not running.is_at_end:
        assert running.step() is None
        positions.append(running.position)
    assert positions == [180, 360, 540, 720, 900]
    assert running.is_proven


async def test_any_bit_that_flips_is_noticed_and_comes_back(log: Log) -> None:
    """Those of offset and epoch, which no checksum of a batch covers, need no copy: but they are noticed at the end."""
    sound, chance = content(log), Random(1)
    first, any_other, last = 0, 2 * SIZE, (COUNT - 1) * SIZE
    headers = [start + place for start in (first, any_other, last) for place in range(61)]
    for position in [*headers, *(chance.randrange(COUNT * SIZE) for _ in range(60))]:
        flip(log, position, chance.randrange(8))
        alone, _ = scrub(log)
        assert not alone.is_proven, position
        scrubbing, found = scrub(log, COPIES)
        if scrubbing.is_proven:
            assert [damaged.position for damaged in found] == [position // SIZE * SIZE]
        else:
            scrubbing, found = scrub(log, headers_of=scrubbing)
            assert found == []
        assert list(scrubbing.repairs) == [position // SIZE * SIZE]
        assert await log.repair(scrubbing)
        assert content(log) == sound


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_what_came_back_and_could_not_be_synced_for_want_of_room_may_be_lost(
    log: Log, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    flip(log, 70)
    scrubbing, _ = scrub(log, COPIES)

    async def fail(_: SimulatedFile) -> None:
        raise OSError(number, "it fails")

    monkeypatch.setattr(SimulatedFile, "sync", fail)
    with pytest.raises(OSError, match="it fails"):
        await log.repair(scrubbing)
    assert log.may_have_lost


@pytest.fixture
async def joined(files: SimulatedFiles) -> Log:
    """The same, where leaders came and went: compaction has made one segment of what each of them left."""
    config = LogConfig(compacts=True, segment_bytes_max=COUNT * SIZE, index_interval_bytes=100)
    log = log_at(files, DIRECTORY, config, clean=False)
    for batch in (*JOINED.values(), make_batch(log.log_end + 50, epoch=8)):
        log.append(batch, header_of(batch))
    await log.compact(0, log.log_end - 1)
    assert [start.epoch for start in segment_of(log).facts.epoch_starts or ()] == [3, 4, 5, 7]
    return log


async def test_any_bit_comes_back_also_where_epochs_meet(joined: Log) -> None:
    sound = content(joined)
    for position in (start + place for start in range(0, COUNT * SIZE, SIZE) for place in range(61)):
        for bit in (0, position % 8):
            flip(joined, position, bit)
            scrubbing, _ = scrub(joined, JOINED)
            if not scrubbing.is_proven:
                scrubbing, _ = scrub(joined, JOINED, headers_of=scrubbing)
            assert await joined.repair(scrubbing)
            assert content(joined) == sound


async def test_batches_of_several_epochs_that_cannot_be_read_come_back(joined: Log) -> None:
    sound = content(joined)
    segment_of(joined).reader.log.get().write_at(2 * SIZE, bytes(5 * SIZE))
    helped, found = scrub(joined, JOINED)
    assert len(found) == 5
    assert await joined.repair(helped)
    assert content(joined) == sound


async def test_an_offset_and_a_batch_may_be_damaged_at_once(log: Log) -> None:
    sound = content(log)
    flip(log, 2 * SIZE + 6)
    flip(log, 5 * SIZE + 70)
    scrubbing, _ = scrub(log, COPIES)
    assert not scrubbing.is_proven
    scrubbing, _ = scrub(log, COPIES, headers_of=scrubbing)
    assert sorted(scrubbing.repairs) == [2 * SIZE, 5 * SIZE]
    assert await log.repair(scrubbing)
    assert content(log) == sound


async def test_bytes_that_the_disk_does_not_give_come_back(log: Log) -> None:
    sound = content(log)
    segment_of(log).reader.log.get().write_at(3 * SIZE, bytes(2 * SIZE))
    helped, found = scrub(log, COPIES)
    assert [damaged.position for damaged in found] == [3 * SIZE, 4 * SIZE]
    assert [damaged.header for damaged in found] == [None, None]
    assert await log.repair(helped)
    assert content(log) == sound


async def test_a_copy_that_was_stamped_later_gives_the_same_bytes(log: Log) -> None:
    sound, copies = content(log), {offset: bytearray(copy) for offset, copy in COPIES.items()}
    for offset, copy in copies.items():
        stamp(copy, 0, offset, 9)
    flip(log, 3 * SIZE + 70)
    helped, _ = scrub(log, copies)
    assert await log.repair(helped)
    assert content(log) == sound


@pytest.mark.parametrize(
    "copy",
    [
        b"",
        COPIES[15][:-1],
        make_batch(15, 5, size=SIZE + 1, epoch=3),
        make_batch(15, 4, size=SIZE, epoch=3),
        make_batch(15, 5, size=SIZE, epoch=3, timestamp=7),
        make_batch(20, 5, size=SIZE, epoch=3),
        bytes(COPIES[15][:80]) + b"x" + bytes(COPIES[15][81:]),
    ],
    ids=["none", "cut", "larger", "fewer records", "another time", "another offset", "damaged too"],
)
async def test_what_was_not_there_is_not_written(log: Log, copy: bytes) -> None:
    flip(log, 3 * SIZE + 70)
    helped, found = scrub(log, {15: bytearray(copy)})
    assert found[0].offset == 15
    assert not helped.is_proven


async def test_what_is_not_on_the_disk_yet_does_not_lie_still(log: Log) -> None:
    for _ in range(COUNT):
        batch = make_batch(log.log_end, size=SIZE, epoch=3)
        log.append(batch, header_of(batch))
    assert [segment.base for segment in log.synced_segments()] == [0]
    await log.sync()
    assert len(log.synced_segments()) == 2


async def test_a_segment_that_changes_meanwhile_is_let_be(log: Log) -> None:
    flip(log, 3 * SIZE + 70)
    helped, _ = scrub(log, COPIES)
    before = content(log)
    await log.restamp(0, 5, 4)
    assert helped.is_outdated
    assert not await log.repair(helped)
    await log.sync()
    assert content(log)[16:] == before[16:]
    gone = SegmentScrub(segment_of(log))
    await log.truncate_fully(0)
    assert gone.is_outdated


async def test_a_disk_that_does_not_take_it_back_ends_the_log(log: Log, files: SimulatedFiles) -> None:
    flip(log, 3 * SIZE + 70)
    helped, _ = scrub(log, COPIES)
    files.syncs_fail = True
    with pytest.raises(OSError, match="the simulated disk is broken"):
        await log.repair(helped)
    files.syncs_fail = False
    with pytest.raises(OSError, match="could not be written again"):
        await log.sync()


@pytest.mark.parametrize("within", [6, 15, 70, 8, 16])
async def test_damage_is_found_from_before_it_on(log: Log, within: int) -> None:
    """In an offset, an epoch, a record, a length and a magic number."""
    assert await log.damaged_segment(0) is None
    flip(log, 5 * SIZE + within, bit=4)
    assert await log.damaged_segment(0) is segment_of(log)
    assert await log.damaged_segment(25) is segment_of(log)
    if within == 16:
        assert await log.damaged_segment(27) is segment_of(log), "who looks for the offset stumbles over it"
    assert await log.damaged_segment(log.log_end) is None


async def test_damage_is_found_segments_later(files: SimulatedFiles) -> None:
    """All of which a follower may be sent at once."""
    log = log_at(files, DIRECTORY, LogConfig(segment_bytes_max=2 * SIZE), clean=False)
    for batch in COPIES.values():
        log.append(batch, header_of(batch))
    await log.sync()
    segment = log.synced_segments()[3]
    file = segment.reader.log.get()
    file.write_at(70, bytes([file.read_at(70, 1)[0] ^ 1]))
    assert await log.damaged_segment(0) is segment


def open_file(log: Log, files: SimulatedFiles) -> SimulatedFile:
    return files.open(f"{DIRECTORY}/{file_name(log.segments()[-1].base, Kind.LOG)}")


async def test_what_an_open_segment_should_be_is_known_when_it_is_sealed(log: Log, files: SimulatedFiles) -> None:
    last = log.segments()[-1]
    file = open_file(log, files)
    (byte,) = file.read_at(70, 1)
    file.write_at(70, bytes([byte ^ 1]))
    damaged = await log.damaged_segment(0)
    assert damaged is log.synced_segments()[1]
    assert damaged.facts.checksum == last.checksum


@pytest.fixture
async def growing(files: SimulatedFiles) -> Log:
    """All in one segment, that may not be sealed."""
    log = log_at(files, DIRECTORY, LogConfig(index_interval_bytes=100), clean=False)
    log.may_roll = lambda base: False
    for batch in COPIES.values():
        log.append(batch, header_of(batch))
    return log


async def prefix_of(log: Log) -> OpenSegmentPrefix:
    check = log.check_open_segment()
    assert check is not None
    assert not check.step()
    damaged = await log.damaged_open_segment(check)
    assert isinstance(damaged, OpenSegmentPrefix)
    return damaged


@pytest.mark.parametrize("within", [6, 15, 70, 8, 16, 42])
async def test_one_that_may_not_be_sealed_is_mended_while_it_grows(
    growing: Log, files: SimulatedFiles, within: int
) -> None:
    """In an offset, an epoch, a record, a length, a magic number and a time."""
    heard: list[int] = []
    growing.on_compacted = lambda: heard.append(growing.log_end)
    file = open_file(growing, files)
    position = 3 * SIZE + within
    sound = file.read_at(0, COUNT * SIZE)
    file.write_at(position, bytes([sound[position] ^ 1]))
    scrubbing, _ = scrub_to_end(SegmentScrub(await prefix_of(growing)), COPIES)
    if not scrubbing.is_proven:
        scrubbing = scrubbing.with_other_headers()[0]
        scrub_to_end(scrubbing, COPIES)
    batch = make_batch(growing.log_end, size=SIZE, epoch=3)
    growing.append(batch, header_of(batch))
    assert await growing.repair(scrubbing)
    assert file.read_at(0, 10_000) == sound + batch
    assert heard == [growing.log_end], "who remembers what was read of it is to read again"
    check = growing.check_open_segment()
    assert check is not None
    assert check.step()


async def test_one_that_may_not_be_sealed_is_let_be_when_it_changes(growing: Log, files: SimulatedFiles) -> None:
    file = open_file(growing, files)
    file.write_at(3 * SIZE + 70, bytes([COPIES[15][70] ^ 1]))
    scrubbing, _ = scrub_to_end(SegmentScrub(await prefix_of(growing)), COPIES)
    await growing.restamp(40, 50, 4)
    assert scrubbing.is_proven
    assert scrubbing.is_outdated
    assert not await growing.repair(scrubbing)
    cut = await prefix_of(growing)
    await growing.truncate(45)
    assert cut.is_closed


async def reopened_with_a_time_that_has_flipped(log: Log, files: SimulatedFiles) -> Log:
    """A scan at the start computes no checksums of what was on the disk, and believes the headers."""
    flip(log, 3 * SIZE + 42, bit=5)
    await log.restamp(0, COUNT * 5, 4)
    await log.close(clean=False)
    reopened = log_at(files, DIRECTORY, log.config, clean=False)
    await reopened.sync()
    assert segment_of(reopened).facts.max_timestamp == 32, "as the header says"
    return reopened


def damage_found(files: SimulatedFiles) -> list[str]:
    return [each.sentence for each in ReplicaVerification(files, DIRECTORY).findings() if each.is_damage]


async def test_a_time_that_has_flipped_is_noted_no_more_once_it_is_mended(log: Log, files: SimulatedFiles) -> None:
    facts = segment_of(log).facts
    reopened = await reopened_with_a_time_that_has_flipped(log, files)
    scrubbing, _ = scrub(reopened, COPIES)
    assert scrubbing.has_other_times
    assert await reopened.repair(scrubbing)
    assert damage_found(files) == []
    await reopened.close()
    again = log_at(files, DIRECTORY, log.config, clean=True)
    noted = segment_of(again).facts
    assert replace(noted, checksum=facts.checksum, epoch=facts.epoch, epoch_starts=facts.epoch_starts) == facts
    assert segment_of(again).max_timestamp(0, 45) == 0, "as the index says"
    assert not scrub(again)[0].has_other_times


async def test_a_time_is_corrected_that_was_not_when_the_batch_was_mended(log: Log, files: SimulatedFiles) -> None:
    """The process ended in between, say."""
    reopened = await reopened_with_a_time_that_has_flipped(log, files)
    flip(reopened, 3 * SIZE + 42, bit=5)
    whole, found = scrub(reopened)
    assert (found, whole.repairs, whole.is_proven, whole.has_other_times) == ([], {}, True, True)
    assert await reopened.repair(whole)
    assert segment_of(reopened).facts.max_timestamp == 0
    assert damage_found(files) == []


async def test_a_manifest_without_room_is_corrected_the_next_time(log: Log, files: SimulatedFiles) -> None:
    reopened = await reopened_with_a_time_that_has_flipped(log, files)
    scrubbing, _ = scrub(reopened, COPIES)
    files.room_bytes = 0
    assert await reopened.repair(scrubbing)
    files.room_bytes = None
    assert segment_of(reopened).facts.max_timestamp == 0
    assert segment_of(reopened).max_timestamp(0, 45) == 0, "as the index says"
    await reopened.close()
    again = log_at(files, DIRECTORY, log.config, clean=True)
    whole, _ = scrub(again)
    assert whole.has_other_times
    assert await again.repair(whole)
    assert damage_found(files) == []


async def test_times_of_an_open_segment_are_corrected_with_those_that_came_meanwhile(
    log: Log, files: SimulatedFiles
) -> None:
    await log.close(clean=False)
    open_file(log, files).write_at(41, b"\1")
    again = log_at(files, DIRECTORY, log.config, clean=False)
    again.may_roll = lambda base: False
    assert again.segments()[-1].max_timestamp == 256, "as the header says"
    scrubbing, _ = scrub_to_end(SegmentScrub(await prefix_of(again)), {50: make_batch(50, epoch=3)})
    batch = make_batch(again.log_end, size=SIZE, epoch=3, timestamp=7)
    again.append(batch, header_of(batch))
    assert await again.repair(scrubbing)
    assert again.segments()[-1].max_timestamp == 7
    await again.close()
    assert damage_found(files) == []


async def test_a_damaged_end_can_be_cut_off(growing: Log, files: SimulatedFiles) -> None:
    """Also where no header says any more how the log went on."""
    file = open_file(growing, files)
    sound = file.read_at(0, 3 * SIZE)
    file.write_at(3 * SIZE + 8, bytes(30))
    scrubbed, found = scrub_to_end(SegmentScrub(await prefix_of(growing)), None)
    assert scrubbed.sound_end == (3 * SIZE, 15)
    assert len(found) == 1
    assert await growing.truncate_before_damage(scrubbed.segment, *scrubbed.sound_end)
    assert growing.log_end == 15
    assert file.read_at(0, 10_000) == sound
    check = growing.check_open_segment()
    assert check is not None
    assert check.step()
    batch = make_batch(15, 5, size=SIZE, epoch=4)
    growing.append(batch, header_of(batch))
    await growing.close()
    assert damage_found(files) == []
    assert log_at(files, DIRECTORY, growing.config, clean=True).log_end == 20


async def test_a_whole_segment_can_be_cut_off_and_those_behind_it(files: SimulatedFiles) -> None:
    log = log_at(files, DIRECTORY, LogConfig(segment_bytes_max=2 * SIZE), clean=False)
    for batch in COPIES.values():
        log.append(batch, header_of(batch))
    await log.sync()
    segment = log.synced_segments()[2]
    segment.reader.log.get().write_at(0, bytes(SIZE))
    damaged = await log.damaged_segment(0)
    assert damaged is segment
    assert await log.truncate_before_damage(segment, 0, 20)
    assert (log.log_end, [each.base for each in log.segments()]) == (20, [0, 10, 20])
    await log.close()
    assert damage_found(files) == []


@pytest.mark.parametrize(
    ("position", "offset", "at"),
    [(3 * SIZE, 15, 70), (3 * SIZE, 15, 7), (3 * SIZE, 16, 400), (0, 0, 400)],
    ids=["a record before it", "an offset before it", "another offset", "all of the log"],
)
async def test_nothing_is_cut_off_where_the_rest_does_not_show_what_it_is(
    growing: Log, files: SimulatedFiles, position: int, offset: int, at: int
) -> None:
    file = open_file(growing, files)
    for place in (at, 3 * SIZE + 70):
        file.write_at(place, bytes([file.read_at(place, 1)[0] ^ 1]))
    before = file.read_at(0, 10_000)
    assert not await growing.truncate_before_damage(await prefix_of(growing), position, offset)
    assert (growing.log_end, file.read_at(0, 10_000)) == (50, before)


async def test_nothing_is_cut_off_that_has_changed_meanwhile(growing: Log, files: SimulatedFiles) -> None:
    file = open_file(growing, files)
    file.write_at(3 * SIZE + 70, bytes([COPIES[15][70] ^ 1]))
    damaged = await prefix_of(growing)
    await growing.restamp(40, 50, 4)
    assert not await growing.truncate_before_damage(damaged, 3 * SIZE, 15)
    assert growing.log_end == 50
