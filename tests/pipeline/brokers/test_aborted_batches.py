import struct
from collections.abc import Sequence

import pytest

from tailrace.pipeline.brokers.aborted_batches import read_fetched
from tailrace.pipeline.segments.segment_columns import ENTRY_TYPES
from tailrace.protocol.batches.control_batches import bridge, hole
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.fetch import AbortedTransaction

ABORT, COMMIT = 0, 1


def records(offset: int, producer: int = -1, count: int = 2, is_transactional: bool = False) -> bytearray:
    content = [Record(offset + each, 0, None, b"v") for each in range(count)]
    return build_batch(
        content, base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0,
        is_transactional=is_transactional,
    )  # fmt: skip


def marker(offset: int, producer: int, kind: int) -> bytearray:
    record = Record(offset, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return build_batch(
        [record], base_offset=offset, producer_id=producer, producer_epoch=0, is_control=True, is_transactional=True
    )


def seen(aborted: Sequence[AbortedTransaction], *batches: bytearray) -> list[tuple[int, str, bool]]:
    found = read_fetched(b"".join(batches), aborted)
    return [(each.stored.header.base_offset, ENTRY_TYPES[each.stored.entry_type], each.is_aborted) for each in found]


def test_batches_have_types() -> None:
    assert seen((), records(0), hole(2, 4, 1), bridge(4, 1), marker(5, 7, COMMIT)) == [
        (0, "event", False),
        (2, "hole", False),
        (4, "bridge", False),
        (5, "marker", False),
    ]


def test_only_the_aborted_transactions_of_a_producer_are_left_out() -> None:
    batches = (
        records(0, 7, is_transactional=True),
        records(2, 8, is_transactional=True),
        records(4, 7),
        marker(6, 7, ABORT),
        records(7, 7, is_transactional=True),
        marker(9, 7, COMMIT),
        marker(10, 8, ABORT),
        records(11, 7, is_transactional=True),
        marker(13, 7, ABORT),
    )
    aborted = [AbortedTransaction(7, 11), AbortedTransaction(8, 2), AbortedTransaction(7, 0)]
    assert [offset for offset, _, is_aborted in seen(aborted, *batches) if is_aborted] == [0, 2, 11]


def test_a_batch_that_was_cut_at_the_end_of_a_response_is_left_for_the_next() -> None:
    data = b"".join((records(0), records(2)))
    assert [each.stored.header.base_offset for each in read_fetched(data[:-1], ())] == [0]


def test_a_flipped_bit_is_found() -> None:
    data = records(0) + records(2)
    data[-3] ^= 1
    with pytest.raises(KafkaError, match="the batch at offset 2 is corrupt"):
        list(read_fetched(bytes(data), ()))
