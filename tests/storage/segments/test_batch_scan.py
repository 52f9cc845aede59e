"""Every byte of a `.log` file is read in pieces, up to where no batch can be found."""

from struct import pack_into

import pytest
from bad_disk import BadDisk
from batch_samples import header_of, make_batch
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.protocol.batches.record_batch import CRC_START
from tailrace.storage.segments import batch_scan
from tailrace.storage.segments.batch_scan import PIECE_BYTES, BatchScan, ScannedBatch

BATCHES = [make_batch(0, 2, size=61), make_batch(2, size=300), make_batch(3, 5, size=99), make_batch(8, size=1000)]
STARTS = [0, 61, 361, 460]
WHOLE = b"".join(BATCHES)


def _file(content: bytes) -> SimulatedFile:
    file = SimulatedFiles().open("/a", create=True)
    file.append(content)
    return file


def _scan(content: bytes) -> tuple[BatchScan, list[ScannedBatch]]:
    scan = BatchScan(_file(content), len(content))
    return scan, list(scan)


@pytest.mark.parametrize("piece_bytes", [61, 62, 100, 361, 400, 10_000])
def test_it_finds_every_batch_wherever_a_piece_ends(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scan, "PIECE_BYTES", piece_bytes)
    disk = BadDisk(WHOLE)
    scan = BatchScan(disk, len(WHOLE))
    found = list(scan)
    assert [batch.position for batch in found] == STARTS
    assert [batch.header for batch in found] == [header_of(batch) for batch in BATCHES]
    assert [batch.start for batch in found] == [bytes(batch[:61]) for batch in BATCHES]
    assert all(batch.checksum_matches for batch in found)
    assert (scan.position, scan.failure) == (len(WHOLE), None)
    assert max(disk.counts) <= piece_bytes


def test_small_batches_share_a_read() -> None:
    disk = BadDisk(WHOLE)
    assert len(list(BatchScan(disk, len(WHOLE)))) == 4
    assert disk.counts == [len(WHOLE)]


def test_a_wrong_bit_spoils_the_checksum_of_its_batch_alone() -> None:
    for position in range(61 + CRC_START, 361):
        damaged = bytearray(WHOLE)
        damaged[position] ^= 1
        scan, found = _scan(damaged)
        assert [batch.checksum_matches for batch in found] == [True, False, True, True]
        assert scan.failure is None


def test_it_stops_before_the_batch_that_was_torn() -> None:
    for size in range(len(WHOLE)):
        scan, found = _scan(WHOLE[:size])
        whole = [start for start, batch in zip(STARTS, BATCHES, strict=True) if start + len(batch) <= size]
        assert [batch.position for batch in found] == whole
        end = sum(len(batch) for batch in BATCHES[: len(whole)])
        assert scan.position == end
        assert (scan.failure is not None) == (end < size)
        assert not scan.is_unreadable


def test_a_stopped_scan_stays_where_it_is() -> None:
    disk = BadDisk(WHOLE, bad_position=0)
    scan = BatchScan(disk, len(WHOLE))
    assert list(scan) == []
    disk.bad_position = None
    assert list(scan) == []
    assert (scan.position, scan.failure) == (0, "the file cannot be read: the disk cannot read the file")


def test_only_bytes_that_were_there_at_its_beginning_count() -> None:
    scan = BatchScan(_file(WHOLE), 361)
    assert [batch.position for batch in scan] == STARTS[:2]
    assert scan.failure is None


def test_a_length_that_lies_costs_no_memory() -> None:
    batch = bytearray(3 * PIECE_BYTES)
    batch[:61] = make_batch(0)[:61]
    for length, is_there in ((len(batch) - 12, True), (2**31 - 1, False)):
        pack_into(">i", batch, 8, length)
        disk = BadDisk(bytes(batch))
        scan = BatchScan(disk, len(batch))
        assert [each.checksum_matches for each in scan] == [False] * is_there
        assert (scan.failure is None) == is_there
        assert max(disk.counts) <= PIECE_BYTES
        assert sum(disk.counts) <= len(batch)


@pytest.mark.parametrize("bad_position", [370, 459])
@pytest.mark.parametrize("piece_bytes", [61, 10_000])
def test_unreadable_bytes_are_not_called_torn(
    bad_position: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches before them are returned, even if both were requested in one read."""
    monkeypatch.setattr(batch_scan, "PIECE_BYTES", piece_bytes)
    scan = BatchScan(BadDisk(WHOLE, bad_position=bad_position), len(WHOLE))
    assert [batch.position for batch in scan] == STARTS[:2]
    assert (scan.is_unreadable, scan.failure) == (True, "the file cannot be read: the disk cannot read the file")


def test_a_file_that_becomes_shorter_ends_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scan, "PIECE_BYTES", 61)
    scan = BatchScan(BadDisk(WHOLE[:300]), len(WHOLE))
    assert [batch.position for batch in scan] == STARTS[:1]
    assert scan.failure == "the file cannot be read: it was truncated during the scan"
