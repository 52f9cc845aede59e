"""Opens what a fetch has brought, for those who look at the records themselves."""

from collections.abc import Iterator

from tailrace.protocol.batches.record_batch import crc_of, iterate
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.error_codes import ErrorCode, KafkaError


def fetched_batches(data: bytes) -> Iterator[tuple[int, list[Record]]]:
    """Of each whole batch the offset behind it, and its records; none of one that recovery or a transaction has left.
    Raises KafkaError, with a sentence, at a batch that nobody can read."""
    view = memoryview(data)
    for position, header in iterate(data):
        if crc_of(view, position, header.size) != header.crc:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is damaged")
        yield header.next_offset, [] if header.is_control else read_records(view[position:])


def first_timestamp(data: bytes, offset: int) -> int | None:
    """Of the first record that a consumer would be given who asks for this offset."""
    try:
        for _, records in fetched_batches(data):
            for record in records:
                if record.offset >= offset:
                    return record.timestamp
    except KafkaError:
        return None  # who reads the partition will be told
    return None
