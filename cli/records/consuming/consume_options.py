"""The options of `tailrace consume`, and which of them go together."""

import argparse
import re

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.formats.record_format import RecordFormat

from .consume_ranges import BEGINNING, END, place
from .consume_tail import TAIL_MAX

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a parser."""
    parser.add_argument(
        "topics",
        metavar="TOPIC[:P,P]",
        nargs="+",
        help="Topic, some of its partitions, or a pattern such as 'orders.*'; several may be given.",
    )
    which = parser.add_argument_group("records")
    which.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=place,
        help="Start at beginning (default), end, offset, time (2026-01-31T12:00:00Z), or duration ago (90m, 2d).",
    )
    which.add_argument(
        "--to", dest="stop", metavar="WHERE", type=place, help="Stop before this offset, time, or duration ago."
    )
    which.add_argument("--tail", metavar="N", type=_tail, help="Print the last N records of all partitions.")
    which.add_argument("--count", metavar="N", type=_count, help="Stop after N records.")
    which.add_argument(
        "--key",
        metavar="PATTERN",
        action="append",
        default=[],
        help="Only records with this key; several may be given.",
    )
    which.add_argument(
        "--header",
        metavar="NAME=PATTERN",
        action="append",
        default=[],
        help="Only records with this header; all that are given must match.",
    )
    which.add_argument("--follow", "-f", action="store_true", help="Wait for more records, until Ctrl-C.")
    how = parser.add_argument_group("reading")
    how.add_argument(
        "--uncommitted", action="store_true", help="Read to the log end; records that are not committed may be lost."
    )
    how.add_argument(
        "--isolation",
        choices=(READ_UNCOMMITTED, READ_COMMITTED),
        default=READ_UNCOMMITTED,
        help="With read_committed, leave out records of transactions that are open or were aborted.",
    )
    how.add_argument(
        "--transactions",
        action="store_true",
        help="Mark each record of a transaction as open, committed or aborted.",
    )
    how.add_argument(
        "--quorum",
        action="store_true",
        help="Ask the replicas instead of the leader which records are acknowledged; works without a leader.",
    )
    how.add_argument(
        "--group",
        metavar="GROUP",
        type=_group,
        help="Share the work with the other members of this consumer group, and commit what was printed.",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--values", action="store_true", help="Print only the values, unchanged, each with a line end.")
    output.add_argument(
        "--format", metavar="TEXT", type=RecordFormat, help=r"Format of each record, such as '%%t/%%p %%o %%k %%s\n'."
    )
    output.add_argument("--null", metavar="TEXT", help="With --format: text that stands for no key and no value.")


def check(arguments: argparse.Namespace) -> None:
    """Checks that the options go together. Raises UsageError."""
    if arguments.tail is not None:
        for name, given in (("from", arguments.start), ("count", arguments.count)):
            if given is not None:
                raise UsageError(f"--tail and --{name} cannot be used together")
    if arguments.start == END and not arguments.follow:
        raise UsageError("--from end: there are no records yet; add --follow to wait for them")
    if arguments.stop is not None and arguments.follow:
        raise UsageError("--to and --follow cannot be used together")
    if arguments.stop == BEGINNING:
        raise UsageError("--to beginning: there are no records before it")
    if arguments.start is None:
        arguments.start = BEGINNING
    _check_isolation(arguments)
    if arguments.group is not None:
        _check_group(arguments)
    if arguments.quorum:
        _check_quorum(arguments)
    _check_output(arguments)


def _check_isolation(arguments: argparse.Namespace) -> None:
    if arguments.isolation == READ_COMMITTED and arguments.transactions:
        raise UsageError("--transactions: with --isolation read_committed all records are committed")
    if arguments.transactions and (arguments.values or arguments.format):
        raise UsageError("--transactions: leave out --values and --format, which do not show it")
    for name, given in (
        ("isolation read_committed", arguments.isolation == READ_COMMITTED),
        ("transactions", arguments.transactions),
    ):
        for other in ("uncommitted", "quorum"):
            if given and getattr(arguments, other):
                raise UsageError(f"--{name} and --{other} cannot be used together")


def _check_group(arguments: argparse.Namespace) -> None:
    for name, given in (
        ("uncommitted", arguments.uncommitted),
        ("quorum", arguments.quorum),
        ("tail", arguments.tail),
        ("to", arguments.stop),
    ):
        if given:
            raise UsageError(f"--group and --{name} cannot be used together")


def _check_quorum(arguments: argparse.Namespace) -> None:
    for name in ("uncommitted", "tail"):
        if getattr(arguments, name):
            raise UsageError(f"--quorum and --{name} cannot be used together")
    for name, given in (("from", arguments.start), ("to", arguments.stop)):
        if given not in (None, BEGINNING) and not isinstance(given, int):
            allowed = "beginning or an offset" if name == "from" else "an offset"
            raise UsageError(f"--quorum: --{name} must be {allowed}, because only leaders know times and ends")


def _check_output(arguments: argparse.Namespace) -> None:
    given = [name for name in ("values", "format") if getattr(arguments, name)]
    if given and arguments.output != "table":
        raise UsageError(f"--{given[0]}: leave out --output {arguments.output}")
    if len(given) > 1:
        raise UsageError("--values and --format cannot be used together")
    if arguments.null is not None and not arguments.format:
        raise UsageError("--null: only --format takes it")


def _group(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return text


def _count(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text) is None or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of records")
    return int(text)


def _tail(text: str) -> int:
    count = _count(text)
    if count > TAIL_MAX:
        raise argparse.ArgumentTypeError(f"{text} is more than {TAIL_MAX}; use --from")
    return count
