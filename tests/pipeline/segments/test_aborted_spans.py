from typing import Any

import pytest
from segment_logs import START_MS

from tailrace.pipeline.segments.aborted_spans import AbortedBatches
from tailrace.protocol.batches.record_batch import BatchHeader, read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch

_ABORTED = AbortedBatches([(7, 40, 50), (7, 10, 20), (8, 15, 2**63 - 1)])


def _header(offset: int, producer_id: int, **attributes: Any) -> BatchHeader:
    batch = build_batch(
        [Record(offset, START_MS, None, b"v")],
        base_offset=offset,
        leader_epoch=0,
        **{"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True, **attributes},
    )
    return read_header(batch)


@pytest.mark.parametrize(
    ("producer_id", "offset", "is_aborted"),
    [
        (7, 9, False),
        (7, 10, True),
        (7, 19, True),
        (7, 20, False),
        (7, 39, False),
        (7, 49, True),
        (7, 50, False),
        (8, 14, False),
        (8, 15, True),
        (8, 10**12, True),
        (9, 15, False),
    ],
)
def test_a_batch_is_aborted_between_the_begin_and_the_marker_of_its_producer(
    producer_id: int, offset: int, is_aborted: bool
) -> None:
    assert (_header(offset, producer_id) in _ABORTED) is is_aborted


def test_markers_and_batches_without_a_transaction_are_not_aborted() -> None:
    marker = marker_batch(15, 0, 7, 0, is_commit=False, coordinator_epoch=1, now_ms=START_MS)
    assert read_header(marker) not in _ABORTED
    assert _header(15, 7, is_transactional=False) not in _ABORTED
