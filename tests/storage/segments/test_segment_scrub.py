"""Flipped bits in a sealed segment are found, and repaired only by exactly the lost bytes."""

import errno
from random import Random

import pytest
from batch_samples import header_of, make_batch
from logs import log_at
from scrubbed_logs import (
    COPIES,
    COUNT,
    DIRECTORY,
    SIZE,
    content,
    flip,
    scrub,
    segment_of,
)
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments import segment_scrub
from tailrace.storage.segments.segment_scrub import SegmentScrub

pytestmark = pytest.mark.trio

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
    """Makes a log with one synced sealed segment and an open one."""
    config = LogConfig(segment_bytes_max=COUNT * SIZE, index_interval_bytes=100)
    log = log_at(files, DIRECTORY, config, clean=False)
    for batch in (*COPIES.values(), make_batch(log.log_end + 50, epoch=3)):
        log.append(batch, header_of(batch))
    await log.sync()
    return log


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


async def test_any_flipped_bit_is_found_and_repaired(log: Log) -> None:
    """Flipped bits of offsets and epochs, which no batch checksum covers, need no copy, but are found only at the
    end."""
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
async def test_a_repair_that_a_full_disk_could_not_sync_may_be_lost(
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
    """Makes a log of several leaders whose segments compaction has merged."""
    config = LogConfig(compacts=True, segment_bytes_max=COUNT * SIZE, index_interval_bytes=100)
    log = log_at(files, DIRECTORY, config, clean=False)
    for batch in (*JOINED.values(), make_batch(log.log_end + 50, epoch=8)):
        log.append(batch, header_of(batch))
    await log.compact(0, log.log_end - 1)
    assert [start.epoch for start in segment_of(log).facts.epoch_starts or ()] == [3, 4, 5, 7]
    return log


async def test_any_bit_is_repaired_even_where_epochs_meet(joined: Log) -> None:
    sound = content(joined)
    for position in (start + place for start in range(0, COUNT * SIZE, SIZE) for place in range(61)):
        for bit in (0, position % 8):
            flip(joined, position, bit)
            scrubbing, _ = scrub(joined, JOINED)
            if not scrubbing.is_proven:
                scrubbing, _ = scrub(joined, JOINED, headers_of=scrubbing)
            assert await joined.repair(scrubbing)
            assert content(joined) == sound


async def test_unreadable_batches_of_several_epochs_are_repaired(joined: Log) -> None:
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


async def test_unreadable_bytes_are_repaired(log: Log) -> None:
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
async def test_a_wrong_copy_is_not_written(log: Log, copy: bytes) -> None:
    flip(log, 3 * SIZE + 70)
    helped, found = scrub(log, {15: bytearray(copy)})
    assert found[0].offset == 15
    assert not helped.is_proven


async def test_unsynced_segments_are_not_scrubbed(log: Log) -> None:
    for _ in range(COUNT):
        batch = make_batch(log.log_end, size=SIZE, epoch=3)
        log.append(batch, header_of(batch))
    assert [segment.base for segment in log.synced_segments()] == [0]
    await log.sync()
    assert len(log.synced_segments()) == 2


async def test_a_segment_that_changes_meanwhile_is_not_repaired(log: Log) -> None:
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
