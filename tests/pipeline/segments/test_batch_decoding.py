"""The records of neighbouring batches are decoded together."""

import pytest

from tailrace.pipeline.segments.batch_decoding import decode_batches
from tailrace.pipeline.segments.record_columns import PADDING, RecordColumns
from tailrace.pipeline.segments.segment_reading import ReadBatch
from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError


def _chunk(compression: Compression = Compression.NONE) -> bytes:
    """Makes three batches, of which the second has no records."""
    counts, chunk, offset = (3, 0, 200), b"", 0
    for count in counts:
        records = [Record(offset + i, 1000, b"k%d" % (offset + i), b"v" * i) for i in range(count)]
        chunk += build_batch(records, base_offset=offset, compression=compression)
        offset += count
    return chunk


def _batches(chunk: bytes, end: int) -> list[ReadBatch]:
    found, within = [], 0
    while within < end:
        header = read_header(chunk, within)
        found.append(ReadBatch(within, header, 0, None, chunk, within))
        within += header.size
    return found


def _keys(found: RecordColumns) -> list[bytes]:
    return [found.data[at : at + size] for at, size in zip(found.key_start, found.key_size, strict=True)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("tail", [b"", b"\xff" * len(PADDING)])
def test_records_are_found_wherever_they_lie(compression: Compression, tail: bytes) -> None:
    chunk = _chunk(compression)
    found = decode_batches(_batches(chunk + tail, len(chunk)))
    assert _keys(found) == [b"k%d" % i for i in range(203)]
    assert found.value_size.tolist() == [0, 1, 2, *range(200)]
    assert found.batch.tolist() == [0] * 3 + [2] * 200


def test_batches_are_not_copied_without_need() -> None:
    chunk = _chunk()
    assert decode_batches(_batches(chunk + PADDING, len(chunk))).data[: len(chunk)] == chunk
    assert decode_batches(_batches(chunk, len(chunk))).data != chunk


def test_a_record_does_not_go_on_in_the_next_batch() -> None:
    chunk = bytearray(_chunk() + PADDING)
    chunk[61] += 2  # the first record is a byte longer, and so would be the last of its batch
    with pytest.raises(KafkaError, match="record"):
        decode_batches(_batches(bytes(chunk), len(chunk) - len(PADDING)))


def test_no_batches_have_no_records() -> None:
    assert len(decode_batches([])) == 0
