"""What it costs in reads to find a batch."""

from random import Random

from batch_samples import make_batch
from simulation.files import SimulatedFiles

from tailrace.storage.indexes.lookup_reads import LookupReads
from tailrace.storage.indexes.open_files import LazyFile, OpenFiles
from tailrace.storage.indexes.segment_index import SegmentIndex
from tailrace.storage.segments.batch_walk import NEAR_BYTES
from tailrace.storage.segments.segment_reader import SegmentReader

INTERVAL_BYTES, BATCH_BYTES = 4096, 500


def _reader(batches: int, reads: LookupReads) -> SegmentReader:
    open_files = OpenFiles(SimulatedFiles(), lookups=reads)
    index = SegmentIndex(open_files, "", 0, interval_bytes=INTERVAL_BYTES)
    log = LazyFile(open_files, "/log", create=True)
    for offset in range(batches):
        index.new.on_batch(offset, offset * BATCH_BYTES, -1)
        log.get().append(make_batch(offset, size=BATCH_BYTES))
    return SegmentReader(0, log, index, INTERVAL_BYTES)


def test_a_batch_anywhere_is_found_with_few_bytes_however_large_the_log_is() -> None:
    for batches in (10, 2000):
        reads = LookupReads()
        reader = _reader(batches, reads)
        size = batches * BATCH_BYTES
        for number, offset in enumerate(Random(7).choices(range(batches), k=50), start=1):
            before = reads.index_lookup_bytes
            assert reader.position_of(offset, size) == offset * BATCH_BYTES
            assert reads.index_lookups == number
            assert 0 < reads.index_lookup_bytes - before <= 2 * NEAR_BYTES


def test_the_end_of_a_range_is_looked_up_as_well() -> None:
    reads = LookupReads()
    reader = _reader(100, reads)
    assert reader.boundary(0, 50 * BATCH_BYTES + 1, 100 * BATCH_BYTES) == 50 * BATCH_BYTES
    assert reads.index_lookups == 1
    assert 0 < reads.index_lookup_bytes <= 2 * NEAR_BYTES
