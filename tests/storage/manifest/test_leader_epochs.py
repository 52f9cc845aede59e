"""Where leader epochs began and ended."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.manifest.leader_epochs import EpochEvidence, EpochStart, LeaderEpochs


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(2, 10), EpochStart(5, 30)])
    assert epochs.latest == 5
    assert epochs.end_of(0, 40) == (0, 10)
    assert epochs.end_of(1, 40) == (0, 10)
    assert epochs.end_of(2, 40) == (2, 30)
    assert epochs.end_of(5, 40) == (5, 40)
    assert [epochs.at(offset) for offset in (0, 9, 10, 29, 30, 99)] == [0, 0, 2, 2, 5, 5]


def test_an_epoch_older_than_all_ended_where_the_first_begins() -> None:
    epochs = LeaderEpochs([EpochStart(3, 7)])
    assert epochs.end_of(1, 40) == (1, 7)
    assert epochs.at(6) == NO_EPOCH


def test_a_log_without_records_has_no_epochs() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == NO_EPOCH
    assert epochs.at(0) == NO_EPOCH
    assert epochs.end_of(4, 11) == (4, 11)


def test_an_epoch_that_appended_nothing_leaves_no_trace() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 10)])
    assert list(epochs) == [(0, 0), (2, 10)]


def test_repeating_the_start_of_an_epoch_changes_nothing() -> None:
    starts = [EpochStart(0, 0), EpochStart(0, 5), EpochStart(2, 10), EpochStart(2, 12), EpochStart(1, 14)]
    assert list(LeaderEpochs(starts)) == [(0, 0), (2, 10)]


def test_the_rest_of_an_epoch_begins_with_the_log_start() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(2, 10), EpochStart(5, 30)])
    epochs.advance_start(15)
    assert list(epochs) == [(2, 15), (5, 30)]
    epochs.advance_start(15)
    epochs.advance_start(3)
    assert list(epochs) == [(2, 15), (5, 30)]
    epochs.advance_start(50)
    assert list(epochs) == [(5, 50)]


def test_an_epoch_begins_with_its_bridge_and_not_with_what_it_stamped() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(2, 40)])
    epochs.begin_with_bridge(2, 50)
    assert list(epochs) == [(1, 0), (2, 50)]
    epochs.begin_with_bridge(2, 50)
    assert list(epochs) == [(1, 0), (2, 50)]


def test_a_restamped_bridge_keeps_its_epoch() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(2, 40), EpochStart(3, 45)])
    epochs.begin_with_bridge(2, 50)
    assert list(epochs) == [(1, 0), (2, 50), (3, 51)]
    epochs.begin_with_bridge(3, 51)
    assert list(epochs) == [(1, 0), (2, 50), (3, 51)]


def test_the_order_of_evidence_does_not_matter() -> None:
    evidence = [
        EpochEvidence(1, 0, is_bridge=False),
        EpochEvidence(2, 40, is_bridge=False),
        EpochEvidence(1, 45, is_bridge=False),
        EpochEvidence(3, 46, is_bridge=False),
        EpochEvidence(2, 50, is_bridge=True),
        EpochEvidence(3, 51, is_bridge=True),
        EpochEvidence(3, 52, is_bridge=False),
    ]
    for order in permutations(evidence):
        assert list(LeaderEpochs.from_evidence(order)) == [(1, 0), (2, 50), (3, 51)]
    # The beginning was removed, and the manifest says which epoch the first record has.
    assert list(LeaderEpochs.from_evidence(evidence[1:])) == [(1, 45), (2, 50), (3, 51)]


def test_the_later_of_two_bridges_of_an_epoch_is_right() -> None:
    """The earlier start was perhaps only stamped, before the bridge came."""
    evidence = [
        EpochEvidence(1, 0, is_bridge=False),
        EpochEvidence(2, 40, is_bridge=True),
        EpochEvidence(2, 50, is_bridge=True),
    ]
    assert list(LeaderEpochs.from_evidence(evidence)) == [(1, 0), (2, 50)]


def test_epochs_that_began_between_two_offsets() -> None:
    epochs = LeaderEpochs([EpochStart(0, 0), EpochStart(2, 10), EpochStart(5, 30)])
    assert epochs.between(0, 30) == ((0, 0), (2, 10))
    assert epochs.between(11, 30) == ()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=9), st.integers(0, 99))
def test_truncation_equals_never_having_appended(steps: list[tuple[int, int]], end: int) -> None:
    epochs, kept = LeaderEpochs(), LeaderEpochs()
    epoch = offset = 0
    for epoch_step, offset_step in steps:
        epoch, offset = epoch + epoch_step, offset + offset_step
        epochs.begin(epoch, offset)
        if offset < end:
            kept.begin(epoch, offset)
    before = list(epochs)
    epochs.truncate(end)
    assert list(epochs) == [start for start in before if start.start < end]
    assert [start.epoch for start in epochs] == sorted({start.epoch for start in epochs})
