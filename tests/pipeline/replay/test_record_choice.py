import pytest

from tailrace.pipeline.replay.record_choice import RecordChoice, RecordChooser
from tailrace.protocol.batches.records import Record


def _takes(choice: RecordChoice, timestamp: int = 0, key: bytes | None = None) -> bool:
    return RecordChooser(choice).takes(Record(0, timestamp, key, None))


def test_a_window_includes_its_start_and_not_its_end() -> None:
    window = RecordChoice(from_ms=10, until_ms=20)
    assert [_takes(window, each) for each in (9, 10, 19, 20, -1)] == [False, True, True, False, False]


def test_one_of_the_patterns_must_match_the_key() -> None:
    choice = RecordChoice(keys=("order-*", "x?"), key_regexes=("^a+$",))
    keys = (b"order-7", b"xy", b"aaa", b"baa", b"my-order-7", b"\xff", None)
    assert [_takes(choice, key=each) for each in keys] == [True, True, True, False, False, False, False]
    assert RecordChooser(RecordChoice()).takes_all


def test_a_wrong_regular_expression_is_named() -> None:
    with pytest.raises(ValueError, match=r"'[(]' is no regular expression"):
        RecordChooser(RecordChoice(key_regexes=("(",)))
