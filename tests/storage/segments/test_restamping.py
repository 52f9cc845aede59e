"""Stamping changes epochs in place, and nothing else."""

from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
import trio
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.record_batch import BatchHeader, iterate
from tailrace.protocol.error_codes import KafkaError
from tailrace.storage.indexes.open_files import OpenFiles
from tailrace.storage.log_config import LogConfig
from tailrace.storage.segments import restamping
from tailrace.storage.segments.batch_walk import Readable, walk
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.restamping import restamp
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import RecoveryReport, recover_segment

pytestmark = pytest.mark.trio

PATH = "/r/00000000000000000050.log"


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/r")
    return files


def _segment(files: SimulatedFiles, count: int, *, epoch: int = 1) -> OpenSegment:
    """Makes a segment of batches of two offsets each."""
    config = LogConfig(index_interval_bytes=200)
    segment = SegmentMaker(OpenFiles(files), "/r", config, RecoveryReport()).new_segment(50)
    for number in range(count):
        batch = make_batch(segment.end, 2, size=70 + number % 7, epoch=epoch)
        segment.append(batch, (header_of(batch),))
    return segment


def _epochs(files: SimulatedFiles) -> list[int]:
    return [header.leader_epoch for _, header in iterate(files.read(PATH))]


@pytest.mark.parametrize(
    ("base", "end", "expected"),
    [
        (50, 70, [7] * 10),
        (56, 62, [1, 1, 1, 7, 7, 7, 1, 1, 1, 1]),
        (57, 62, [1, 1, 1, 1, 7, 7, 1, 1, 1, 1]),
        (66, 99, [1] * 8 + [7] * 2),
        (10, 51, [7] + [1] * 9),
        (70, 80, [1] * 10),
        (56, 56, [1] * 10),
    ],
)
async def test_the_batches_that_begin_in_the_range_and_no_others(
    files: SimulatedFiles, base: int, end: int, expected: list[int]
) -> None:
    segment = _segment(files, 10)
    before = files.read(PATH)
    await segment.restamp(base, end, 7)
    assert _epochs(files) == expected
    after = files.read(PATH)
    changed = {position for position in range(len(before)) if before[position] != after[position]}
    assert len(changed) == expected.count(7)


async def test_the_segments_checksum_follows(files: SimulatedFiles) -> None:
    segment = _segment(files, 30)
    for base, end, epoch in ((60, 80, 2), (50, 110, 300), (108, 110, 70_000), (70, 72, 5), (50, 110, 1)):
        await segment.restamp(base, end, epoch)
        file = files.open(PATH)
        scanned = recover_segment(file, file.size(), 50, trusted_end=0, interval_bytes=200).summary
        assert (segment.summary.checksum, segment.summary.epoch) == (scanned.checksum, scanned.epoch)
    sealed = segment.seal(0)
    await sealed.restamp(100, 110, 9)
    file = files.open(PATH)
    scanned = recover_segment(file, file.size(), 50, trusted_end=0, interval_bytes=200).summary
    assert (sealed.facts.checksum, sealed.facts.epoch) == (scanned.checksum, 9)


async def test_a_continued_stamping_does_not_read_the_batches_behind(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower stamps with each message; reading everything behind each time would take hours for a long log."""
    segment = _segment(files, 40)
    walked: list[int] = []

    def counting(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader, bytes]]:
        for each in walk(file, position, end):
            walked.append(each[0])
            yield each

    monkeypatch.setattr(restamping, "walk", counting)
    for end in range(60, 131, 10):
        await segment.restamp(end - 10, end, 200 + end)
        scanned = recover_segment(files.open(PATH), segment.size, 50, trusted_end=0, interval_bytes=200).summary
        assert (segment.summary.checksum, segment.summary.epoch) == (scanned.checksum, scanned.epoch)
    assert len(walked) == 40 + 6 * 6 + 5
    assert _epochs(files) == [200 + end for end in range(60, 131, 10) for _ in range(5)]


@pytest.mark.parametrize("seed", range(20))
async def test_the_checksum_follows_wherever_stamping_continues(files: SimulatedFiles, seed: int) -> None:
    chance = Random(seed)
    segment: OpenSegment | SealedSegment = _segment(files, 10)
    for _ in range(30):
        if chance.random() < 0.2 and isinstance(segment, OpenSegment):
            batch = make_batch(segment.end, 2, size=71, epoch=segment.epoch)
            segment.append(batch, (header_of(batch),))
        elif chance.random() < 0.1 and isinstance(segment, OpenSegment):
            segment = segment.seal(0)
        base = chance.choice((chance.randrange(50, segment.end), chance.randrange(50, segment.end) & ~1))
        for end in sorted(chance.randrange(base, segment.end + 2) & ~1 for _ in range(chance.choice((1, 3)))):
            await segment.restamp(base, end, chance.choice((1, 2, 300)))
            base = end
            summary = segment.summary if isinstance(segment, OpenSegment) else segment.facts
            scanned = recover_segment(files.open(PATH), segment.size, 50, trusted_end=0, interval_bytes=200).summary
            assert (summary.checksum, summary.epoch) == (scanned.checksum, scanned.epoch)


async def test_batches_that_have_the_epoch_are_not_written(files: SimulatedFiles) -> None:
    segment = _segment(files, 10, epoch=3)
    operations: list[int] = []
    files.on_operation = lambda: operations.append(1)
    assert await segment.restamp(50, 70, 3) == 0
    assert not operations
    assert await segment.restamp(64, 70, 4) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [(255, 256), (254, 257), (1, 2**31 - 1), (0x1FFFF, 0x20000), (300, 0x010001), (257, 254), (512, 511)],
)
async def test_a_crash_leaves_no_epoch_larger_than_both(files: SimulatedFiles, old: int, new: int) -> None:
    segment = _segment(files, 3, epoch=old)
    await segment.sync()
    await files.sync_directory("/r")
    await files.sync_directory("")
    seen: set[int] = set()

    def crash() -> None:
        for seed in range(60):
            seen.update(_epochs(files.crash(Random(seed))))

    files.on_operation = crash
    await restamp(segment.reader, segment.summary, 50, 60, new)
    assert {old, new} <= seen
    assert max(seen) == max(old, new)


async def test_it_syncs_in_between_only_if_several_bytes_change(files: SimulatedFiles) -> None:
    segment = _segment(files, 3, epoch=254)
    files.syncs_fail = True
    await segment.restamp(50, 60, 255)
    with pytest.raises(OSError, match="broken"):
        await segment.restamp(50, 60, 256)


async def test_the_newest_header_is_read_again(files: SimulatedFiles) -> None:
    segment = _segment(files, 3)
    await segment.restamp(54, 56, 8)
    assert [header.leader_epoch for header, _ in segment.headers(52, 56)] == [1, 8]
    assert [header.leader_epoch for header, _ in segment.headers(54, 56)] == [8]


async def test_other_tasks_run_while_many_batches_are_stamped(
    files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restamping, "STAMPED_IN_A_TURN", 2)
    segment = _segment(files, 10)
    turns: list[list[int]] = []

    async def look() -> None:
        while True:
            turns.append(_epochs(files))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await segment.restamp(50, 70, 7)
        nursery.cancel_scope.cancel()
    assert any(0 < epochs.count(7) < 10 for epochs in turns)
    recovered = recover_segment(files.open(PATH), segment.size, 50, trusted_end=0, interval_bytes=200)
    assert recovered.summary.checksum == segment.summary.checksum


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize(("base", "end"), [(50, 70), (50, 60), (54, 70), (56, 64)])
@pytest.mark.parametrize("number", range(10))
async def test_a_corrupt_epoch_does_not_spoil_the_noted_checksum(
    files: SimulatedFiles, number: int, base: int, end: int, *, is_sealed: bool
) -> None:
    """A corrupt epoch is overwritten, or it is found later like any other damage."""
    for within, wrong in ((15, 3), (12, 0x80), (7, 2), (7, 0x80), (17, 0xFF)):
        segment: OpenSegment | SealedSegment = _segment(files, 10)
        whole = files.read(PATH)
        at = [position for position, _ in iterate(whole)][number] + within
        if is_sealed:
            segment = segment.seal(0)
        file = segment.reader.log.get()
        file.write_at(at, bytes([whole[at] ^ wrong]))
        with suppress(KafkaError):  # the place of the first one is unknown now
            await segment.restamp(base, end, 7)
        if file.read_at(at, 1)[0] == whole[at] ^ wrong:
            file.write_at(at, whole[at : at + 1])
        mended = recover_segment(file, segment.size, 50, trusted_end=0, interval_bytes=200).summary
        summary = segment.summary if isinstance(segment, OpenSegment) else segment.facts
        assert (summary.checksum, summary.epoch) == (mended.checksum, mended.epoch)
        segment.close()
        files.remove(PATH)
