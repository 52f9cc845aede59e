"""Walks from header to header."""

import pytest
from bad_disk import BadDisk
from batch_samples import make_batch
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.files import UnreadableError
from tailrace.storage.segments.batch_walk import walk

BATCHES = [make_batch(0, 2, size=61), make_batch(2, size=300), make_batch(3, 5, size=99), make_batch(8, size=10_000)]


def _file(*parts: bytes) -> SimulatedFile:
    file = SimulatedFiles().open("/a", create=True)
    for part in parts:
        file.append(part)
    return file


@pytest.mark.parametrize("chunk_bytes", [61, 62, 200, 4096, 100_000])
def test_it_finds_every_batch_whatever_it_reads_at_once(chunk_bytes: int) -> None:
    file = _file(*BATCHES)
    found = list(walk(file, 0, file.size(), chunk_bytes))
    assert [position for position, _, _ in found] == [0, 61, 361, 460]
    assert [header.base_offset for _, header, _ in found] == [0, 2, 3, 8]
    assert [start for _, _, start in found] == [bytes(batch[:61]) for batch in BATCHES]


def test_unreadable_bytes_matter_only_where_they_are_needed() -> None:
    whole = b"".join(BATCHES)
    assert [position for position, _, _ in walk(BadDisk(whole, bad_position=200), 0, len(whole))] == [0, 61, 361, 460]
    found = walk(BadDisk(whole, bad_position=400), 0, len(whole))
    assert [next(found)[0], next(found)[0]] == [0, 61]
    with pytest.raises(UnreadableError):
        next(found)


def test_it_starts_anywhere_and_reads_little_of_large_batches() -> None:
    file = _file(*BATCHES)
    reads: list[int] = []

    class Counting:
        def read_at(self, position: int, count: int) -> bytes:
            reads.append(count)
            return file.read_at(position, count)

    assert [header.base_offset for _, header, _ in walk(Counting(), 361, file.size(), 128)] == [3, 8]
    assert sum(reads) <= 2 * 128


@pytest.mark.parametrize("missing", [1, 9_939, 9_940, 9_999])
def test_it_stops_at_an_incomplete_batch(missing: int) -> None:
    file = _file(*BATCHES)
    assert len(list(walk(file, 0, file.size() - missing))) == 3


def test_an_impossible_header_is_corrupt() -> None:
    file = _file(BATCHES[0], bytes(100))
    walking = walk(file, 0, file.size())
    next(walking)
    with pytest.raises(KafkaError) as caught:
        next(walking)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
