import argparse

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.triggers.letter_selection import LetterSelection, add_conditions, place, selection_of, whole_error
from tailrace.protocol.batches.records import Record
from tailrace.trigger.dead_letters.dead_letter import Letter, Origin, dead_letter, read_letter
from tailrace.trigger.work import Failure, FailureKind, Shard

NOW_MS = 1_700_000_000_000


def _record(offset: int, error: str = "KeyError", message: str = "'amount'", age_ms: int = 0) -> Record:
    failure = Failure(FailureKind.RAISED, 5, 6, error, message)
    output = dead_letter("dead", Origin(Shard("orders", 0), 5, 6, "g"), Record(5, 6, None, b"v"), failure, 5)
    return Record(offset, NOW_MS - age_ms, output.key, output.value, list(output.headers))


def _letter(record: Record) -> Letter:
    letter = read_letter(record)
    assert letter is not None
    return letter


def _has(selection: LetterSelection, record: Record, partition: int = 0) -> bool:
    return selection.has(partition, record, _letter(record))


def _selection(*words: str, places: str = "") -> LetterSelection:
    parser = argparse.ArgumentParser()
    add_conditions(parser)
    return selection_of(parser.parse_args(words), NOW_MS, places)


def test_without_conditions_everything_is_selected() -> None:
    assert _selection().is_everything
    assert _has(_selection(), _record(5))


def test_places_are_offsets_of_partitions() -> None:
    selection = _selection(places="0/5,0/7-9,2/0")
    assert not selection.is_everything
    assert [offset for offset in range(12) if _has(selection, _record(offset))] == [5, 7, 8, 9]
    assert [offset for offset in range(12) if _has(selection, _record(offset), 2)] == [0]
    assert place("0/7-9") == (0, range(7, 10))


@pytest.mark.parametrize("text", ["", "5", "0/", "/5", "a/5", "0/5-", "0/5-x", "0/9-7", "0/5,"])
def test_other_places_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        place(text)


def test_all_conditions_must_be_fulfilled() -> None:
    selection = _selection("--error", "KeyError", "--since", "10s", "--until", "5s", places="0/5")
    assert _has(selection, _record(5, age_ms=7_000))
    for other in (
        _record(6, age_ms=7_000),
        _record(5, "ValueError", age_ms=7_000),
        _record(5, age_ms=4_000),
        _record(5, age_ms=11_000),
    ):
        assert not _has(selection, other)


def test_the_whole_error_is_as_python_prints_it() -> None:
    assert whole_error(_letter(_record(5))) == "KeyError: 'amount'"
    assert whole_error(_letter(_record(5, "", ""))) == "raised"
