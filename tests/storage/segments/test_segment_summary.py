"""The summary of a segment."""

import crc32c
from batch_samples import header_of, make_batch

from tailrace.storage.indexes.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.segments.segment_summary import SegmentSummary


def _summary(*batches: bytearray) -> SegmentSummary:
    summary = SegmentSummary(header_of(batches[0]).base_offset)
    for batch in batches:
        summary.add(batch, header_of(batch))
    return summary


def test_it_grows_batch_by_batch() -> None:
    batches = [make_batch(5, 3, size=80, timestamp=50, epoch=2), make_batch(8, 1, size=100, timestamp=20, epoch=2)]
    summary = _summary(*batches)
    assert (summary.base, summary.end, summary.size, summary.epoch) == (5, 9, 180, 2)
    assert (summary.first_timestamp, summary.max_timestamp) == (50, 50)
    assert summary.checksum == crc32c.crc32c(b"".join(batch[:21] for batch in batches))


def test_the_checksum_covers_every_bit_outside_the_batches_own_checksums() -> None:
    batch = make_batch(0)
    checksums = set()
    for position in range(21):
        for bit in range(8):
            changed = bytearray(batch)
            changed[position] ^= 1 << bit
            summary = SegmentSummary(0)
            summary.add(changed, header_of(batch))
            checksums.add(summary.checksum)
    assert len(checksums) == 21 * 8
    assert _summary(batch).checksum not in checksums


def test_the_headers_bytes_suffice() -> None:
    batch = make_batch(0, size=500)
    summary = SegmentSummary(0)
    summary.add(memoryview(batch)[:61], header_of(batch))
    assert (summary.size, summary.checksum) == (500, _summary(batch).checksum)


def test_its_epoch_is_that_of_the_last_batch() -> None:
    assert _summary(make_batch(5, epoch=2), make_batch(6, epoch=4)).epoch == 4


def test_a_batch_without_a_time_is_not_its_first_one() -> None:
    summary = _summary(make_batch(5, timestamp=-1), make_batch(6, timestamp=30), make_batch(7, timestamp=10))
    assert (summary.first_timestamp, summary.max_timestamp) == (30, 30)


def test_impossible_next_batches() -> None:
    summary = _summary(make_batch(5, 3, epoch=2))
    assert summary.refuses(header_of(make_batch(8, epoch=2))) is None
    assert summary.refuses(header_of(make_batch(11, epoch=2))) is None
    assert "after" in (summary.refuses(header_of(make_batch(7, epoch=2))) or "")
    assert "far" in (summary.refuses(header_of(make_batch(6 + RELATIVE_OFFSET_MAX, epoch=2))) or "")
    assert SegmentSummary(5).refuses(header_of(make_batch(5, epoch=9))) is None
