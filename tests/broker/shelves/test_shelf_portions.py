"""Which of a leader's batches a copy takes, and how."""

from collections.abc import Sequence

import pytest
from batch_samples import header_of, make_batch

from tailrace.broker.peers.peer_codec import DamagedBatchError
from tailrace.broker.shelves.shelf_portions import NOTHING, aborted_firsts, portion_of, runs_of, with_rising_epochs
from tailrace.protocol.batches.control_batches import bridge
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.ids import Epoch


def _records(*offsets: int, epochs: Sequence[int] = ()) -> memoryview:
    batches = [make_batch(offset, epoch=epochs[at] if epochs else 3) for at, offset in enumerate(offsets)]
    return memoryview(b"".join(batches))


def _taken(records: memoryview, position: int, end: int) -> list[int]:
    data, headers = portion_of(records, 3, position, end)
    assert [header for _, header in iterate(data)] == list(headers)
    return [header.base_offset for header in headers]


@pytest.mark.parametrize(("end", "taken"), [(3, []), (4, [3]), (5, [3, 4]), (6, [3, 4, 5]), (9, [3, 4, 5])])
def test_batches_up_to_the_end_are_taken(end: int, taken: list[int]) -> None:
    assert _taken(_records(3, 4, 5), 3, end) == taken


@pytest.mark.parametrize(
    ("offsets", "taken"),
    [((3, 4, 7), [3, 4]), ((3, 7, 8), [3, 7, 8]), ((5,), []), ((5, 6), [5, 6]), ((3, 4, 5, 19), [3, 4, 5, 19])],
)
def test_a_batch_behind_a_gap_is_taken_if_another_follows_or_it_ends_the_shelf(
    offsets: list[int], taken: list[int]
) -> None:
    assert _taken(_records(*offsets), 3, 20) == taken


def test_damaged_batches_and_future_epochs_are_refused() -> None:
    for records in (_records(3, 4, epochs=(3, 4)), _records(4, 3), _records(1, 3)):
        with pytest.raises(DamagedBatchError):
            portion_of(records, 3, 3, 9)
    flipped = bytearray(_records(3, 4))
    flipped[170] ^= 1
    with pytest.raises(DamagedBatchError):
        portion_of(memoryview(flipped), 3, 3, 9)


def test_epochs_never_fall_within_a_copy() -> None:
    portion = portion_of(_records(3, 4, 5, 6, epochs=(1, 3, 2, 3)), 3, 3, 9)
    assert with_rising_epochs(portion, 1)[1] != portion[1]
    raised = with_rising_epochs(portion, 2)
    assert [header.leader_epoch for header in raised[1]] == [2, 3, 3, 3]
    assert [header for _, header in iterate(raised[0])] == list(raised[1])
    as_it_is = portion_of(_records(3, 4), 3, 3, 9)
    assert with_rising_epochs(as_it_is, 3) is as_it_is


def test_a_run_has_one_epoch_and_ends_with_a_control_batch() -> None:
    batches = [make_batch(3, epoch=1), make_batch(4, epoch=1), bridge(5, Epoch(1)), *map(make_batch, (6, 7))]
    portion = portion_of(memoryview(b"".join(batches)), 3, 3, 9)
    runs = list(runs_of(portion))
    assert [[header.base_offset for header in headers] for _, headers in runs] == [[3, 4, 5], [6, 7]]
    assert b"".join(data for data, _ in runs) == portion[0]
    assert header_of(bytes(runs[1][0])).base_offset == 6
    assert list(runs_of((memoryview(b""), ()))) == []


def test_only_transactions_that_begin_in_the_portion_are_foretold() -> None:
    portion = portion_of(_records(3, 4, 5), 3, 3, 9)
    aborted = [(7, 1), (7, 4), (7, 6), (8, 2), (9, 6)]
    assert aborted_firsts(portion, aborted) == {7: 4, 8: 2}
    assert aborted_firsts(NOTHING, aborted) == {}
