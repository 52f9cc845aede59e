import argparse

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.formats.produced_lines import Entry, LineError
from tailrace.cli.records.producing.produce_options import (
    Generation,
    check,
    configure,
    entry_reader,
    generation,
    headers_of,
)
from tailrace.client.log_facts import Partition

PARTITIONS = [Partition("orders", 0), Partition("orders", 1)]


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args(["orders", *words])
    check(arguments)
    return arguments


def test_what_is_generated_has_defaults() -> None:
    assert generation(_parsed()) is None
    assert generation(_parsed("--generate", "3")) == Generation(3, None, 0, 100, 100)
    words = ("--generate", "3", "--rate", "0.5", "--seed", "7", "--size", "9", "--keys", "0")
    assert generation(_parsed(*words)) == Generation(3, 0.5, 7, 9, 0)


@pytest.mark.parametrize(
    "words", ["--generate 0", "--rate 0", "--rate x", "--size 67108865", "--seed -1", "--keys 1.5"]
)
def test_a_wrong_number_is_refused(words: str) -> None:
    with pytest.raises(SystemExit):
        _parsed(*words.split())


@pytest.mark.parametrize("words", ["--keys 0", "--generate 1 --delimiter x", "--json --key-separator x"])
def test_an_option_without_an_effect_is_refused(words: str) -> None:
    with pytest.raises(UsageError):
        _parsed(*words.split())


def test_a_line_is_read_as_the_options_say() -> None:
    assert entry_reader(_parsed("--key-separator", "\\t"), PARTITIONS, is_chosen=False)(b"a\tb", 1) == Entry(b"a", b"b")
    line = b'{"value": "v", "partition": 1}'
    assert entry_reader(_parsed("--json"), PARTITIONS, is_chosen=False)(line, 1).partition == 1
    assert entry_reader(_parsed("--json"), PARTITIONS[:1], is_chosen=True)(line, 1).partition is None
    with pytest.raises(LineError, match="line 4: orders has no partition 1"):
        entry_reader(_parsed("--json"), PARTITIONS[:1], is_chosen=False)(line, 4)


def test_headers_are_bytes() -> None:
    assert headers_of(["a=1=2", "b=", "a=\udcff"]) == [("a", b"1=2"), ("b", b""), ("a", b"\xff")]
    with pytest.raises(UsageError, match="--header a: expected NAME=VALUE"):
        headers_of(["a"])
