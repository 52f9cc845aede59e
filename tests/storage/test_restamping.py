"""Epochs change in place, and nothing else does."""

import pytest
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFiles, Write

from tailrace.protocol.record_batch import iterate
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_opening import SegmentMaker
from tailrace.storage.open_files import OpenFiles
from tailrace.storage.open_segment import OpenSegment
from tailrace.storage.restamping import restamp
from tailrace.storage.segment_recovery import RecoveryReport, recover

PATH = "/r/00000000000000000050.log"


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directories("/r")
    return files


def _segment(files: SimulatedFiles, count: int, *, epoch: int = 1) -> OpenSegment:
    """Of batches of two offsets."""
    config = LogConfig(index_interval_bytes=200)
    segment = SegmentMaker(OpenFiles(files), "/r", config, RecoveryReport()).new_segment(50)
    for number in range(count):
        batch = make_batch(segment.end, 2, size=70 + number % 7, epoch=epoch)
        segment.append(batch, header_of(batch))
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
def test_the_batches_that_begin_in_the_range_and_no_others(
    files: SimulatedFiles, base: int, end: int, expected: list[int]
) -> None:
    segment = _segment(files, 10)
    before = files.read(PATH)
    segment.restamp(base, end, 7)
    assert _epochs(files) == expected
    after = files.read(PATH)
    changed = {position for position in range(len(before)) if before[position] != after[position]}
    assert len(changed) == expected.count(7)


def test_the_segments_checksum_follows(files: SimulatedFiles) -> None:
    segment = _segment(files, 30)
    for base, end, epoch in ((60, 80, 2), (50, 110, 300), (108, 110, 70_000), (70, 72, 5), (50, 110, 1)):
        segment.restamp(base, end, epoch)
        file = files.open(PATH)
        scanned = recover(file, file.size(), 50, trusted_end=0, interval_bytes=200).summary
        assert (segment.summary.checksum, segment.summary.epoch) == (scanned.checksum, scanned.epoch)
    sealed = segment.seal(0)
    sealed.restamp(100, 110, 9)
    file = files.open(PATH)
    scanned = recover(file, file.size(), 50, trusted_end=0, interval_bytes=200).summary
    assert (sealed.facts.checksum, sealed.facts.epoch) == (scanned.checksum, 9)


def test_what_has_the_epoch_already_is_not_written(files: SimulatedFiles) -> None:
    segment = _segment(files, 10, epoch=3)
    operations: list[int] = []
    files.on_operation = lambda: operations.append(1)
    assert segment.restamp(50, 70, 3) == 0
    assert not operations
    assert segment.restamp(64, 70, 4) == 3


@pytest.mark.parametrize(("old", "new"), [(255, 256), (1, 2**31 - 1), (0x1FFFF, 0x20000), (300, 0x010001)])
def test_wherever_a_machine_stops_no_epoch_is_larger_than_it_should_be(
    files: SimulatedFiles, old: int, new: int
) -> None:
    segment = _segment(files, 3, epoch=old)
    seen: set[int] = set()
    files.on_operation = lambda: seen.update(_epochs(files))
    restamp(segment.reader, segment.size, 50, 60, new)
    assert {old, new} <= seen
    assert max(seen) == new
    writes = [operation for operation in files.open(PATH).node.unsynced[3:] if isinstance(operation, Write)]
    assert all(len(write.data) == 1 for write in writes)


def test_the_newest_header_is_read_again(files: SimulatedFiles) -> None:
    segment = _segment(files, 3)
    segment.restamp(54, 56, 8)
    assert [header.leader_epoch for header, _ in segment.headers(52, 56)] == [1, 8]
    assert [header.leader_epoch for header, _ in segment.headers(54, 56)] == [8]
