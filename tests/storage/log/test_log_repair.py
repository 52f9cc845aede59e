"""Repair of damaged segments by a log, which may grow meanwhile. Scrubs alone: test_segment_scrub."""

import pytest
from batch_samples import header_of, make_batch
from logs import log_at
from msgspec.structs import replace
from scrubbed_logs import (
    COPIES,
    COUNT,
    DIRECTORY,
    SIZE,
    damage_found,
    flip,
    open_file,
    prefix_of,
    reopened_with_a_time_that_has_flipped,
    scrub,
    scrub_to_end,
    segment_of,
)
from simulation.files import SimulatedFiles

from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments.segment_scrub import SegmentScrub

pytestmark = pytest.mark.trio


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/data")
    return files


@pytest.fixture
async def log(files: SimulatedFiles) -> Log:
    """Makes a log with one synced sealed segment and an open one."""
    config = LogConfig(segment_bytes_max=COUNT * SIZE, index_interval_bytes=100)
    log = log_at(files, DIRECTORY, config, clean=False)
    for batch in (*COPIES.values(), make_batch(log.log_end + 50, epoch=3)):
        log.append(batch, header_of(batch))
    await log.sync()
    return log


@pytest.fixture
async def growing(files: SimulatedFiles) -> Log:
    """Makes a log with a single segment that may not be sealed."""
    log = log_at(files, DIRECTORY, LogConfig(index_interval_bytes=100), clean=False)
    log.may_roll = lambda base: False
    for batch in COPIES.values():
        log.append(batch, header_of(batch))
    return log


async def test_a_repair_that_cannot_be_written_fails_the_log(log: Log, files: SimulatedFiles) -> None:
    flip(log, 3 * SIZE + 70)
    helped, _ = scrub(log, COPIES)
    files.syncs_fail = True
    with pytest.raises(OSError, match="the simulated disk is broken"):
        await log.repair(helped)
    files.syncs_fail = False
    with pytest.raises(OSError, match="could not be written again"):
        await log.sync()


@pytest.mark.parametrize("within", [6, 15, 70, 8, 16])
async def test_damage_is_found_from_an_earlier_offset(log: Log, within: int) -> None:
    """The damage is in an offset, an epoch, a record, a length and a magic number."""
    assert await log.damaged_segment(0) is None
    flip(log, 5 * SIZE + within, bit=4)
    assert await log.damaged_segment(0) is segment_of(log)
    assert await log.damaged_segment(25) is segment_of(log)
    if within == 16:
        assert await log.damaged_segment(27) is segment_of(log), "a search for the offset finds the damage"
    assert await log.damaged_segment(log.log_end) is None


async def test_damage_is_found_segments_later(files: SimulatedFiles) -> None:
    """A follower may be sent all of these segments at once."""
    log = log_at(files, DIRECTORY, LogConfig(segment_bytes_max=2 * SIZE), clean=False)
    for batch in COPIES.values():
        log.append(batch, header_of(batch))
    await log.sync()
    segment = log.synced_segments()[3]
    file = segment.reader.log.get()
    file.write_at(70, bytes([file.read_at(70, 1)[0] ^ 1]))
    assert await log.damaged_segment(0) is segment


async def test_a_damaged_open_segment_is_sealed_with_its_right_checksum(log: Log, files: SimulatedFiles) -> None:
    last = log.segments()[-1]
    file = open_file(log, files)
    (byte,) = file.read_at(70, 1)
    file.write_at(70, bytes([byte ^ 1]))
    damaged = await log.damaged_segment(0)
    assert damaged is log.synced_segments()[1]
    assert damaged.facts.checksum == last.checksum


@pytest.mark.parametrize("within", [6, 15, 70, 8, 16, 42])
async def test_a_segment_that_may_not_roll_is_repaired_while_it_grows(
    growing: Log, files: SimulatedFiles, within: int
) -> None:
    """The damage is in an offset, an epoch, a record, a length, a magic number and a timestamp."""
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
    assert heard == [growing.log_end], "caches of what was read are invalidated"
    check = growing.check_open_segment()
    assert check is not None
    assert check.step()


async def test_a_growing_segment_that_was_stamped_is_not_repaired(growing: Log, files: SimulatedFiles) -> None:
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


async def test_a_repair_corrects_a_noted_timestamp(log: Log, files: SimulatedFiles) -> None:
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


async def test_a_later_scrub_corrects_a_noted_timestamp(log: Log, files: SimulatedFiles) -> None:
    """This is needed if the process ended between the repair and the correction."""
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


async def test_timestamps_of_an_open_segment_are_corrected_while_it_grows(log: Log, files: SimulatedFiles) -> None:
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


async def test_a_damaged_end_can_be_truncated(growing: Log, files: SimulatedFiles) -> None:
    """This works even if no header tells how the log went on."""
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


async def test_a_damaged_segment_and_those_behind_it_can_be_removed(files: SimulatedFiles) -> None:
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
async def test_nothing_is_truncated_if_the_rest_may_be_damaged(
    growing: Log, files: SimulatedFiles, position: int, offset: int, at: int
) -> None:
    file = open_file(growing, files)
    for place in (at, 3 * SIZE + 70):
        file.write_at(place, bytes([file.read_at(place, 1)[0] ^ 1]))
    before = file.read_at(0, 10_000)
    assert not await growing.truncate_before_damage(await prefix_of(growing), position, offset)
    assert (growing.log_end, file.read_at(0, 10_000)) == (50, before)


async def test_nothing_is_truncated_after_the_log_was_stamped(growing: Log, files: SimulatedFiles) -> None:
    file = open_file(growing, files)
    file.write_at(3 * SIZE + 70, bytes([COPIES[15][70] ^ 1]))
    damaged = await prefix_of(growing)
    await growing.restamp(40, 50, 4)
    assert not await growing.truncate_before_damage(damaged, 3 * SIZE, 15)
    assert growing.log_end == 50
