import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.consuming.record_filters import record_filter
from tailrace.protocol.batches.records import Record


def _matches(record: Record, *, keys: tuple[str, ...] = (), headers: tuple[str, ...] = ()) -> bool:
    chosen = record_filter(keys, headers)
    assert chosen is not None
    return chosen.matches(record)


@pytest.mark.parametrize(
    ("key", "patterns", "expected"),
    [
        (b"customer-7", ["customer-7"], True),
        (b"customer-71", ["customer-7"], False),
        (b"customer-71", ["customer-*"], True),
        (b"a\nb", ["a*"], True),
        (b"a.c", ["a.c"], True),
        (b"abc", ["a.c"], False),
        (b"b", ["a", "b"], True),
        (b"", [""], True),
        (None, ["*"], False),
        (b"\xff", ["\udcff"], True),
        ("ä".encode(), ["?"], True),
        (b"b2", ["[ab][0-9]"], True),
    ],
)
def test_a_key_is_a_text_or_matches_a_pattern(key: bytes | None, patterns: list[str], expected: bool) -> None:
    assert _matches(Record(0, 0, key, b"v"), keys=tuple(patterns)) is expected


def test_all_headers_must_match_and_names_may_repeat() -> None:
    record = Record(0, 0, None, b"v", [("a", b"1"), ("a", b"2"), ("b", None)])
    assert _matches(record, headers=("a=2",))
    assert _matches(record, headers=("a=1", "a=2", "b="))
    assert not _matches(record, headers=("a=1", "a=3"))
    assert not _matches(record, headers=("c=*",))
    assert not _matches(record, headers=("a=1",), keys=("k",))


def test_nothing_given_selects_everything() -> None:
    assert record_filter([], []) is None


@pytest.mark.parametrize("text", ["a", "=1"])
def test_a_header_has_a_name_and_a_value(text: str) -> None:
    with pytest.raises(UsageError, match=f"--header {text}: expected NAME=VALUE"):
        record_filter([], [text])
