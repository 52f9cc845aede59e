"""Which offset and epoch a batch must have had, where its neighbours tell."""

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
    """By their numbers; each has five offsets."""
    corrections = HeaderCorrections(SegmentFacts(base, end, epoch, epoch_starts=starts))
    for number, (offset, leader_epoch) in enumerate(places):
        corrections.add(number, header_of(make_batch(offset, EACH, epoch=leader_epoch)))
    corrections.end()
    return corrections


def found(*places: tuple[int, int], base: int = FIRST, end: int = END, epoch: int = 3) -> dict[int, tuple[int, int]]:
    corrections = corrected(*places, base=base, end=end, epoch=epoch)
    assert corrections.guesses == ([corrections.found] if corrections.found else [])
    return dict(corrections.found)


def test_what_is_in_its_place_is_left_there() -> None:
    assert found((FIRST, 3), (SECOND, 3), (THIRD, 3)) == {}
    assert found((FIRST, 1), (SECOND, 1), (THIRD, 3)) == {}
    assert found((FIRST, 1), (SECOND, 1), (THIRD, 2), (END, 2), (120, 3), (125, 3), end=130) == {}
    assert found((FIRST, 1), (SECOND, 1), (THIRD, 2), (END, 3), (120, 3), end=125) == {}
    assert found((FIRST, 3), (SECOND, 3), (THIRD, 3), base=90, end=120) == {}


def test_a_segment_without_batches_has_none_that_is_wrong() -> None:
    assert found(end=FIRST) == {}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("wrong", [0, 99, 101, 103, 104, 106, 107, 109, 111, 114, 116, 2**60])
def test_an_offset_that_meets_those_of_others_is_where_the_one_before_ends(number: int, wrong: int) -> None:
    right = [(FIRST, 3), (SECOND, 3), (THIRD, 3)]
    places = list(right)
    places[number] = wrong, 3
    assert found(*places) == {number: right[number]}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("wrong", [1, 7, 2**31 - 1])
def test_an_epoch_between_two_of_another_one_was_that(number: int, wrong: int) -> None:
    right = [(FIRST, 3), (SECOND, 3), (THIRD, 3)]
    places = list(right)
    places[number] = right[number][0], wrong
    assert found(*places) == {number: right[number]}


def test_the_first_epoch_may_have_been_right_where_something_else_is_wrong() -> None:
    assert found((FIRST, 1), (SECOND, 3), (THIRD, 3)) == {0: (FIRST, 3)}
    assert found((FIRST, 1), (SECOND, 3), (7, 3)) == {2: (THIRD, 3)}
    assert found((FIRST, 1), (SECOND, 3), (THIRD, 7)) == {2: (THIRD, 3)}
    assert found((FIRST, 1), end=SECOND) == {0: (FIRST, 3)}


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("wrong", [0, 2, 4, 7, 2**31 - 1])
def test_where_epochs_meet_the_manifest_says_which_had_begun(number: int, wrong: int) -> None:
    starts = EpochStart(2, SECOND - 1), EpochStart(3, THIRD), EpochStart(4, 120)
    right = [(FIRST, 1), (SECOND, 2), (THIRD, 3), (END, 3), (120, 4)]
    places = list(right)
    places[number] = right[number][0], wrong
    guesses = corrected(*places, end=125, epoch=4, starts=starts).guesses
    assert ({number: right[number]} in guesses) == (places != right)


def test_where_recovery_has_stamped_batches_their_neighbours_tell() -> None:
    starts = EpochStart(1, FIRST), EpochStart(3, SECOND)
    assert {0: (FIRST, 3)} in corrected((FIRST, 7), (SECOND, 3), end=THIRD, starts=starts).guesses
    stamped = (SECOND, 3), (THIRD, 3), (END, 3)
    starts = EpochStart(1, FIRST), EpochStart(3, END)
    assert corrected((FIRST, 2), *stamped, end=120, starts=starts).guesses == [{0: (FIRST, 3)}]


def test_an_offset_and_the_epoch_of_one_batch() -> None:
    assert found((FIRST, 3), (7, 9), (THIRD, 3)) == {1: (SECOND, 3)}


def test_what_lay_in_a_gap_may_have_been_anywhere_in_it() -> None:
    """Then it is where it can have been, and only the segment's checksum knows."""
    assert found((FIRST, 3), (SECOND + 20, 3), (THIRD + 30, 3), end=END + 30) == {}
    assert found((FIRST, 3), (2, 3), (THIRD + 30, 3), end=END + 30) == {1: (SECOND, 3)}


def test_two_that_are_wrong_and_no_neighbours() -> None:
    assert found((FIRST, 3), (7, 3), (THIRD, 3), (2**50, 3), (120, 3), end=125) == {1: (SECOND, 3), 3: (115, 3)}
