import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cli.records.formats.consumed_output import line_text, record_document
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record

HERE = Partition("orders", 0)


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    record = Record(7, 1_000, b'a"\n', b"\x1b[2J\xff", [("h\n", None), ("i", b"")])
    assert line_text(Consumed(HERE, record, True)) == (
        'orders/0  7  1970-01-01T00:00:01.000Z  "a\\"\\n"  "\\x1b[2J\\xff"  h\\n=null  i=""'
    )


def test_what_is_not_there_is_not_empty() -> None:
    assert line_text(Consumed(HERE, Record(7, -1, None, None), True)) == "orders/0  7  -  -  null"
    assert line_text(Consumed(HERE, Record(7, -1, b"", b""), True)) == 'orders/0  7  -  ""  ""'


def test_what_is_not_committed_is_marked() -> None:
    consumed = Consumed(HERE, Record(7, -1, None, b"v"), False)
    assert line_text(consumed) == 'orders/0  7  -  -  "v"  uncommitted'
    assert record_document(consumed)["committed"] is False


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"a": "b\\n", "c": [1]}', '{"a": "b\\n", "c": [1]}'),
        (b"[\r\n  1,\n  2\n]", "[ 1, 2 ]"),
        ('{"a": "\u202e"}'.encode(), '{"a": "\\u202e"}'),
        (b'{"a"', '"{\\"a\\""'),
        (b"null", '"null"'),
        ("\U0001f600\u00a0\t".encode(), '"\U0001f600\\xa0\\t"'),
        (b"'\"\\\x00\xff\n'", '"\'\\"\\\\\\x00\\xff\\n\'"'),
    ],
)
def test_json_is_shown_as_it_is_and_all_else_in_quotes(value: bytes, shown: str) -> None:
    assert line_text(Consumed(HERE, Record(7, -1, None, value), True)) == f"orders/0  7  -  -  {shown}"


@given(st.binary())
def test_no_value_breaks_a_line(value: bytes) -> None:
    assert line_text(Consumed(HERE, Record(7, -1, None, value), True)).isprintable()


def test_a_document_holds_any_bytes() -> None:
    record = Record(7, 5, b"\xff", "ä".encode(), [("h\udcff", b"1"), ("h", None)])
    document = json.loads(json.dumps(record_document(Consumed(HERE, record, True))))
    assert document == {
        "topic": "orders",
        "partition": 0,
        "offset": 7,
        "timestamp": 5,
        "key": {"base64": "/w=="},
        "value": "ä",
        "headers": [{"name": "h\\xff", "value": "1"}, {"name": "h", "value": None}],
        "committed": True,
    }
