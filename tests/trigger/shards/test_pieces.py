"""Expectations of pieces of a shard."""

from shard_workers import SHARD, handled

from tailrace.trigger.shards.pieces import Piece, failed_range, opened_of
from tailrace.trigger.work import Chunk, Failure, FailureKind


def test_a_part_keeps_the_attempts_of_its_first_event_only() -> None:
    piece = Piece(3, 9, 2, 5.0)
    assert piece.cut(0, 5) == Piece(3, 5, 2, 5.0)
    assert piece.cut(4, 99) == Piece(4, 9, 0, 5.0)
    assert piece.cut(9, 12) is None
    sparse = Piece(3, 9, 2, 0.0, (3, 5, 8))
    assert sparse.cut(4, 8) == Piece(5, 6, 0, 0.0, (5,))
    assert sparse.cut(6, 8) is None


def test_a_failure_lies_in_its_chunk() -> None:
    chunk = Chunk(SHARD, (), 3, 9)
    for (first, end), expected in {(4, 6): (4, 6), (0, 2): (5, 6), (50, 60): (8, 9), (5, 99): (5, 9)}.items():
        failure = Failure(FailureKind.RAISED, first, end, "ValueError")
        assert failed_range(chunk, 4 if first == 4 else 5, failure) == expected


def test_only_handled_events_are_open() -> None:
    outcome = handled(Chunk(SHARD, (), 3, 9), opened=[1, 4, 8])
    assert opened_of(outcome, 3, 7) == [4]
