import argparse

import pytest

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.consuming.consume_options import check, configure


def _checked(words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args(["orders", *words.split()])
    arguments.output = arguments.output if "output" in arguments else "table"
    check(arguments)
    return arguments


def test_it_begins_at_the_beginning_unless_it_is_told_otherwise() -> None:
    assert _checked("").start == "beginning"
    assert _checked("--from 5").start == 5


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--tail 5 --from 5", "--tail and --from cannot be used together"),
        ("--tail 5 --count 5", "--tail and --count cannot be used together"),
        ("--from end", "--from end: there are no records yet"),
        ("--to 5 --follow", "--to and --follow cannot be used together"),
        ("--to beginning", "--to beginning: there are no records before it"),
        ("--quorum --uncommitted", "--quorum and --uncommitted cannot be used together"),
        ("--quorum --to end", "--quorum: --to must be an offset"),
        ("--values --format %s", "--values and --format cannot be used together"),
        ("--isolation read_committed --quorum", "--isolation read_committed and --quorum cannot be used together"),
        ("--transactions --uncommitted", "--transactions and --uncommitted cannot be used together"),
        ("--transactions --isolation read_committed", "--transactions: with --isolation read_committed all records"),
        ("--transactions --values", "--transactions: leave out --values and --format"),
        ("--null x", "--null: only --format takes it"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _checked(words)


@pytest.mark.parametrize("words", ["--count 0", "--tail 100001", "--tail x", "--format %x"])
def test_a_wrong_value_is_refused(words: str) -> None:
    with pytest.raises(SystemExit):
        _checked(words)
