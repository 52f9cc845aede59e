from hypothesis import given
from hypothesis import strategies as st

from tailrace.pipeline.segments.copy_choice import Choice, Extent, Piece, choose_copies


def test_the_copy_that_reaches_furthest_is_read() -> None:
    assert choose_copies([Extent(0, 50), Extent(0, 80), Extent(10, 80)], None, None) == Choice((Piece(1, 0, 80),), ())


def test_shelves_come_before_a_replica() -> None:
    copies = [Extent(70, 120), Extent(0, 40), Extent(40, 90)]
    pieces = (Piece(1, 0, 40), Piece(2, 40, 90), Piece(0, 90, 120))
    assert choose_copies(copies, None, None) == Choice(pieces, ())


def test_what_no_copy_has_is_a_gap() -> None:
    choice = choose_copies([Extent(10, 20), Extent(30, 40)], 5, 50)
    assert choice.pieces == (Piece(0, 10, 20), Piece(1, 30, 40))
    assert choice.gaps == (Extent(5, 10), Extent(20, 30), Extent(40, 50))


def test_no_copies_and_empty_ones_have_nothing() -> None:
    assert choose_copies([], None, None) == choose_copies([Extent(5, 5)], None, None) == Choice((), ())
    assert choose_copies([Extent(0, 9)], 9, None) == Choice((), ())


@given(st.lists(st.builds(Extent, st.integers(0, 20), st.integers(0, 20)), max_size=6))
def test_each_offset_comes_from_one_copy_that_has_it_or_is_in_a_gap(extents: list[Extent]) -> None:
    choice = choose_copies(extents, 0, 20)
    found: dict[int, int | None] = {}
    for piece in choice.pieces:
        for offset in range(piece.start, piece.end):
            assert offset not in found
            assert extents[piece.copy].start <= offset < extents[piece.copy].end
            found[offset] = piece.copy
    for gap in choice.gaps:
        for offset in range(gap.start, gap.end):
            assert not any(extent.start <= offset < extent.end for extent in extents)
            found[offset] = None
    assert sorted(found) == list(range(20))
