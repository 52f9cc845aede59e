import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.cli.records.formats.produced_lines import Entry, LineError
from tailrace.cli.records.formats.record_json import json_entry, json_line, json_value
from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record

HERE = Partition("orders", 3)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=7) | st.just("base64"), inner),
)
JSON_TEXTS = st.builds(
    lambda value, indent, ascii_only: json.dumps(value, indent=indent, ensure_ascii=ascii_only),
    JSON_VALUES,
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
CONTENTS = (
    st.none() | st.binary() | st.text().map(str.encode) | JSON_TEXTS.map(lambda text: text.encode(errors="replace"))
)
NAMES = st.binary(max_size=9).map(lambda name: name.decode(errors="surrogateescape"))


def _line(value: bytes | None, key: bytes | None = None) -> str:
    return json_line(Consumed(HERE, Record(7, 5, key, value), True))


@given(CONTENTS, CONTENTS, st.lists(st.tuples(NAMES, CONTENTS), max_size=3), st.integers(-1, 2**63 - 1))
def test_every_byte_comes_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    line = json_line(Consumed(HERE, Record(7, timestamp, key, value, headers), True))
    assert line.isprintable()
    assert json.loads(line)["offset"] == 7
    assert json_entry(line.encode(), 1) == Entry(key, value, headers, timestamp, 3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (b"null", '"null"'),
        (b"17", '"17"'),
        (b'{"a": [1,  2]}', '{"a": [1,  2]}'),
        ('["ä"]'.encode(), '["ä"]'),
        (b'{"a": 1', '"{\\"a\\": 1"'),
        (b'{"a":\n1}', '"{\\"a\\":\\n1}"'),
        ('["\u009b"]'.encode(), '"[\\"\\u009b\\"]"'),
        (b"\xff", '{"base64": "/w=="}'),
        (b'{"base64": "/w=="}', '{"base64": "eyJiYXNlNjQiOiAiL3c9PSJ9"}'),
        (b'{"base64": "x", "a": 1}', '{"base64": "x", "a": 1}'),
        (b"[" * 100_000 + b"]" * 100_000, '"' + "[" * 100_000 + "]" * 100_000 + '"'),
    ],
)
def test_json_is_json_text_is_a_string_and_other_bytes_are_base64(value: bytes | None, shown: str) -> None:
    assert f'"value": {shown}, ' in _line(value)
    assert json_entry(_line(value).encode(), 1).value == value


def test_a_line_may_be_written_by_hand() -> None:
    assert json_entry(b'{"value": 1.50}', 1) == Entry(None, b"1.50", [])
    line = b' {"key": "k", "value": [ 1 ], "headers": [{"name": "a"}], "timestamp": "1970-01-01T00:00:01Z"} '
    assert json_entry(line, 1) == Entry(b"k", b"[ 1 ]", [("a", None)], 1000)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"key": "k"}', "Object missing required field `value`"),
        (b'{"value": "v", "valeu": 1}', "Object contains unknown field `valeu`"),
        (b'{"value": "\xff"}', "UTF-8"),
        (b'{"value": "\\ud800"}', ""),
        (b'{"value": {"base64": "/w="}}', "the base64 of value is malformed"),
        (b'{"value": null, "key": {"base64": 1}}', "the base64 of key is malformed"),
        (b'{"value": null, "headers": [{"name": null}]}', "the name of a header must be a string"),
        (b'{"value": null, "timestamp": -2}', "Expected `int` >= -1"),
        (b'{"value": null, "timestamp": "soon"}', "timestamp: 'soon' is not a time such as 2026-01-31T12:00:00Z"),
        (b'{"value": null, "partition": -1}', "Expected `int` >= 0"),
        (b'{"value": ' + b"[" * 100_000, ""),
    ],
)
def test_a_wrong_line_is_named(line: bytes, why: str) -> None:
    with pytest.raises(LineError) as raised:
        json_entry(line, 7)
    assert str(raised.value).startswith("line 7: ")
    assert why.lower() in str(raised.value).lower()  # versions of msgspec spell UTF-8 differently
    assert len(str(raised.value)) < 150


def test_only_objects_and_arrays_count_as_json() -> None:
    assert json_value('{"a": 1}') == {"a": 1}
    assert [json_value(text) for text in ("", "{", "[1]]", "1", '"a"', "[NaN]", "{}\n")] == [None] * 7
