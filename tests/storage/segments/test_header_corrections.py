"""Which offset and epoch a batch must have had, according to its neighbours."""

import pytest
from batch_samples import header_of, make_batch

from tailrace.storage.manifest.leader_epochs import EpochStart
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.header_corrections import HeaderCorrections

EACH = 5
FIRST, SECOND, THIRD = 100, 105, 110
END = 115


def corrected(
    *places: tuple[int, int],
    base: int = FIRST,
    end: int = END,
    epoch: int = 3,
    starts: tuple[EpochStart, ...] | None = None,
) -> HeaderCorrections:
    """Returns the corrections by the numbers of the batches; each batch has five offsets."""
    corrections = HeaderCorrections(SegmentFacts(base, end, epoch, epoch_starts=starts))
    for number, (offset, leader_epoch) in enumerate(places):
        corrections.add(number, header_of(make_batch(offset, EACH, epoch=leader_epoch)))
    corrections.end()
    return corrections


def found(*places: tuple[int, int], base: int = FIRST, end: int = END, epoch: int = 3) -> dict[int, tuple[int, int]]:
    corrections = corrected(*places, base=base, end=end, epoch=epoch)
    assert corrections.guesses == ([corrections.found] if corrections.found else [])
    return dict(corrections.found)


def test_right_headers_are_left_alone() -> None:
    assert found((FIRST, 3), (SECOND, 3), (THIRD, 3)) == {}
    assert found((FIRST, 1), (SECOND, 1), (THIRD, 3)) == {}
    assert found((FIRST, 1), (SECOND, 1), (THIRD, 2), (END, 2), (120, 3), (125, 3), end=130) == {}
    assert found((FIRST, 1), (SECOND, 1), (THIRD, 2), (END, 3), (120, 3), end=125) == {}
    assert found((FIRST, 3), (SECOND, 3), (THIRD, 3), base=90, end=120) == {}


def test_a_segment_without_batches_has_none_that_is_wrong() -> None:
    assert found(end=FIRST) == {}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("wrong", [0, 99, 101, 103, 104, 106, 107, 109, 111, 114, 116, 2**60])
def test_an_overlapping_offset_moves_to_the_end_of_the_batch_before(number: int, wrong: int) -> None:
    right = [(FIRST, 3), (SECOND, 3), (THIRD, 3)]
    places = list(right)
    places[number] = wrong, 3
    assert found(*places) == {number: right[number]}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("wrong", [1, 7, 2**31 - 1])
def test_an_epoch_takes_the_value_of_both_its_neighbours(number: int, wrong: int) -> None:
    right = [(FIRST, 3), (SECOND, 3), (THIRD, 3)]
    places = list(right)
    places[number] = right[number][0], wrong
    assert found(*places) == {number: right[number]}


def test_the_first_epoch_is_kept_if_another_header_is_wrong() -> None:
    assert found((FIRST, 1), (SECOND, 3), (THIRD, 3)) == {0: (FIRST, 3)}
    assert found((FIRST, 1), (SECOND, 3), (7, 3)) == {2: (THIRD, 3)}
    assert found((FIRST, 1), (SECOND, 3), (THIRD, 7)) == {2: (THIRD, 3)}
    assert found((FIRST, 1), end=SECOND) == {0: (FIRST, 3)}


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("wrong", [0, 2, 4, 7, 2**31 - 1])
def test_where_epochs_meet_the_manifest_decides(number: int, wrong: int) -> None:
    starts = EpochStart(2, SECOND - 1), EpochStart(3, THIRD), EpochStart(4, 120)
    right = [(FIRST, 1), (SECOND, 2), (THIRD, 3), (END, 3), (120, 4)]
    places = list(right)
    places[number] = right[number][0], wrong
    guesses = corrected(*places, end=125, epoch=4, starts=starts).guesses
    assert ({number: right[number]} in guesses) == (places != right)


def test_stamped_batches_are_corrected_by_their_neighbours() -> None:
    starts = EpochStart(1, FIRST), EpochStart(3, SECOND)
    assert {0: (FIRST, 3)} in corrected((FIRST, 7), (SECOND, 3), end=THIRD, starts=starts).guesses
    stamped = (SECOND, 3), (THIRD, 3), (END, 3)
    starts = EpochStart(1, FIRST), EpochStart(3, END)
    assert corrected((FIRST, 2), *stamped, end=120, starts=starts).guesses == [{0: (FIRST, 3)}]


def test_an_offset_and_the_epoch_of_one_batch() -> None:
    assert found((FIRST, 3), (7, 9), (THIRD, 3)) == {1: (SECOND, 3)}


def test_a_batch_in_a_gap_may_have_any_offset_of_the_gap() -> None:
    """It stays if it fits, and only the checksum of the segment can tell that it is wrong."""
    assert found((FIRST, 3), (SECOND + 20, 3), (THIRD + 30, 3), end=END + 30) == {}
    assert found((FIRST, 3), (2, 3), (THIRD + 30, 3), end=END + 30) == {1: (SECOND, 3)}


def test_two_wrong_batches_without_neighbours() -> None:
    assert found((FIRST, 3), (7, 3), (THIRD, 3), (2**50, 3), (120, 3), end=125) == {1: (SECOND, 3), 3: (115, 3)}
