from typing import Any

from tailrace.protocol.batches.records import Record
from tailrace.trigger.dead_letters.dead_letter import (
    MESSAGE_CHARACTERS_MAX,
    TRACEBACK_CHARACTERS_MAX,
    Origin,
    dead_letter,
    is_unreadable,
    read_letter,
    replayed,
    without_value,
)
from tailrace.trigger.work import Failure, FailureKind, Output, Shard

ORIGIN = Origin(Shard("orders", 3), 17, 1_700_000_000_123, "billing")
FAILURE = Failure(
    FailureKind.RAISED, 17, 18, "ValueError", "no amount", "Traceback …\nValueError: no amount", "bill.py:3 in bill"
)
RECORD = Record(17, 1_700_000_000_123, b"key", b"value", [("h", b"1"), ("none", None)])


def _stored(output: Output, offset: int = 5) -> Record:
    return Record(offset, 1_700_000_001_000, output.key, output.value, list(output.headers))


def _read(output: Output) -> Any:
    letter = read_letter(_stored(output))
    assert letter is not None
    return letter


def test_a_dead_letter_has_the_record_and_the_failure() -> None:
    output = dead_letter("orders.dead", ORIGIN, RECORD, FAILURE, 5)
    assert (output.topic, output.key, output.value, output.partition) == ("orders.dead", b"key", b"value", None)
    letter = _read(output)
    assert (letter.key, letter.value, list(letter.headers)) == (b"key", b"value", RECORD.headers)
    assert (letter.origin, str(letter.origin), letter.attempts) == (ORIGIN, "orders/3/17", 5)
    assert (letter.kind, letter.error, letter.message) == ("raised", "ValueError", "no amount")
    assert (letter.traceback, letter.position) == (FAILURE.traceback, FAILURE.position)
    assert not is_unreadable(letter)


def test_the_names_of_kip_1191() -> None:
    headers = dict(dead_letter("orders.dead", ORIGIN, RECORD, FAILURE, 5).headers)
    names = ("topic", "partition", "offset", "group", "delivery.count", "message")
    assert [headers["__dlq.errors." + name] for name in names] == [
        b"orders",
        b"3",
        b"17",
        b"billing",
        b"5",
        b"no amount",
    ]


def test_a_letter_of_a_share_group_is_read_as_far_as_it_goes() -> None:
    headers: list[tuple[str, bytes | None]] = [("__dlq.errors.topic", b"orders"), ("__dlq.errors.message", b"rejected")]
    letter = read_letter(Record(0, 5, None, None, headers))
    assert letter is not None
    assert (letter.message, letter.error, letter.attempts, str(letter.origin)) == ("rejected", "", -1, "orders/-1/-1")
    assert read_letter(RECORD) is None


def test_a_dead_letter_that_fails_itself_keeps_its_first_failure() -> None:
    first = dead_letter("orders.dead", ORIGIN, RECORD, FAILURE, 5)
    origin = Origin(Shard("orders.dead", 0), 5, 6, "repair")
    second = _read(dead_letter("orders.dead.dead", origin, _stored(first), FAILURE, 1))
    assert (second.origin, second.attempts, tuple(second.headers)) == (origin, 1, first.headers)


def test_long_texts_lose_their_middle() -> None:
    failure = Failure(FailureKind.RAISED, 17, 18, "E", "m" * 10_000, "first" + "t" * 100_000 + "last")
    letter = _read(dead_letter("orders.dead", ORIGIN, RECORD, failure, 5))
    assert len(letter.message) < MESSAGE_CHARACTERS_MAX + 100
    assert len(letter.traceback) < TRACEBACK_CHARACTERS_MAX + 100
    assert letter.traceback.startswith("first")
    assert letter.traceback.endswith("last")
    assert "characters are left out" in letter.traceback


def test_a_batch_that_cannot_be_decoded_is_kept_whole() -> None:
    failure = Failure(FailureKind.UNREADABLE, 17, 18, "CorruptMessage")
    letter = _read(dead_letter("orders.dead", ORIGIN, None, failure, 1, b"batch"))
    assert (letter.key, letter.value, letter.is_batch, is_unreadable(letter)) == (None, b"batch", True, True)


def test_a_letter_that_is_too_large_is_sent_without_its_value() -> None:
    output = without_value(dead_letter("orders.dead", ORIGIN, RECORD, FAILURE, 5))
    letter = _read(output)
    assert (letter.key, letter.value, letter.omitted_bytes, letter.traceback) == (b"key", None, 5, "")
    assert (letter.origin, letter.message, list(letter.headers)) == (ORIGIN, "no amount", RECORD.headers)


def test_a_replayed_record_is_the_original_with_one_header_more() -> None:
    letter = _read(dead_letter("orders.dead", ORIGIN, RECORD, FAILURE, 5))
    again = replayed(letter, None, "orders.dead/0/5")
    assert (again.topic, again.partition, again.key, again.value) == ("orders", 3, b"key", b"value")
    assert list(again.headers) == [*RECORD.headers, ("__dlq.replayed", b"orders.dead/0/5")]
    third = _read(dead_letter("orders.dead", ORIGIN, _stored(again), FAILURE, 5))
    once_more = replayed(third, "repaired", "orders.dead/0/9")
    assert (once_more.topic, once_more.partition) == ("repaired", None), "the key chooses the partition"
    assert list(once_more.headers) == [*RECORD.headers, ("__dlq.replayed", b"orders.dead/0/9")]
