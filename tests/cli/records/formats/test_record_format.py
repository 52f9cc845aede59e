import argparse
from pathlib import Path

import pytest

from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.cli.records.formats.record_format import TOKENS, RecordFormat
from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.records import Record

HEADERS: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("b\udcff", b"\xff")]
RECORD = Consumed(Partition("orders", 3), Record(7, 1000, b"key", b"va\x00\xfflue", HEADERS), True)
EMPTY = Consumed(Partition("orders", 3), Record(8, -1, None, None), True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%t/%p %o %k %s\\n", b"orders/3 7 key va\x00\xfflue\n"),
        ("%K %S %T", b"3 7 1000"),
        ("%R%s", b"\x00\x00\x00\x07va\x00\xfflue"),
        ("%h", b"a=1,a=NULL,b\xff=\xff"),
        ("100%%\\t\\x00\\\\n", b"100%\t\x00\\n"),
        ("", b""),
        ("ä\n", "ä\n".encode()),
    ],
)
def test_tokens_stand_for_parts_of_a_record(text: str, shown: bytes) -> None:
    assert RecordFormat(text).with_null(b"")(RECORD) == shown


def test_no_key_and_no_value_have_a_text_and_a_length() -> None:
    assert RecordFormat("%k %s %K %S %R%h").with_null(b"NULL")(EMPTY) == b"NULL NULL -1 -1 \xff\xff\xff\xff"


@pytest.mark.parametrize(("text", "wrong"), [("%x", "%x"), ("a%", "%"), ("%t%q%y", "%q"), ("% t", "% ")])
def test_an_unknown_token_is_refused_with_the_known_ones(text: str, wrong: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        RecordFormat(text)
    assert str(refused.value).startswith(f"{wrong} is not known; there are: %t topic, %p partition, %o offset, ")
    assert all(f"%{token} " in str(refused.value) for token in TOKENS)


def test_the_page_of_the_command_line_lists_all_tokens() -> None:
    page = (Path(__file__).parents[4] / "docs" / "cli.md").read_text()
    table = page.partition("#### Format strings")[2].partition("####")[0]
    assert [token for token in TOKENS if f"`%{token}`" not in table] == []
