"""The options of `tailrace produce`, and which of them go together."""

import argparse
import re
from collections.abc import Sequence

from msgspec import Struct

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.formats.escaped_text import escaped_separator
from tailrace.cli.records.formats.produced_lines import Entry, Headers, LineError, LineFormat, ReadEntry
from tailrace.cli.records.formats.record_json import json_entry
from tailrace.client.log_client import ACKS_OF_ALL
from tailrace.client.log_facts import Partition
from tailrace.protocol.batches.compression import Compression

ACKS = {"all": ACKS_OF_ALL, "1": 1}
GENERATED_BYTES = 100
GENERATED_BYTES_MAX = 64 * 2**20
GENERATED_KEYS = 100
LINE_END = b"\n"

_LINES = ("key_separator", "null", "json", "delimiter", "input_file")
_GENERATED = ("rate", "seed", "size", "keys")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a parser."""
    parser.add_argument("topic", metavar="TOPIC[/PARTITION]", help="Topic, or one of its partitions.")
    lines = parser.add_argument_group("input")
    lines.add_argument(
        "--key-separator",
        metavar="TEXT",
        type=escaped_separator,
        help=r"Text that ends the key in each line; \t is a tab.",
    )
    lines.add_argument("--null", metavar="TEXT", type=_bytes, help="Text that stands for no value.")
    lines.add_argument(
        "--json",
        action="store_true",
        help="Lines are records as `tailrace consume --output json` prints them; only the value is required.",
    )
    lines.add_argument(
        "--delimiter",
        metavar="TEXT",
        type=escaped_separator,
        help=r"Text that ends each record instead of a line end; \0 is the byte 0.",
    )
    lines.add_argument("--input-file", metavar="FILE", help="File to read instead of standard input.")
    generated = parser.add_argument_group("test data")
    generated.add_argument(
        "--generate", metavar="N", type=_positive, help="Make N records instead of reading an input."
    )
    generated.add_argument("--rate", metavar="N", type=_rate, help="Send N records per second.")
    generated.add_argument(
        "--seed", metavar="N", type=_number, help="Seed; the same seed gives the same records (default: 0)."
    )
    generated.add_argument(
        "--size", metavar="BYTES", type=_size, help=f"Size of each value in bytes (default: {GENERATED_BYTES})."
    )
    generated.add_argument(
        "--keys", metavar="N", type=_number, help=f"Number of keys; 0 for no keys (default: {GENERATED_KEYS})."
    )
    parser.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="Header of each record; may be repeated."
    )
    parser.add_argument(
        "--acks", choices=ACKS, default="all", help="Replicas that must acknowledge a record (default: all)."
    )
    parser.add_argument(
        "--compression",
        choices=[each.name.lower() for each in Compression],
        default="none",
        help="Compression of the records (default: none).",
    )


def check(arguments: argparse.Namespace) -> None:
    """Checks that every given option has an effect. Raises UsageError."""
    if arguments.generate is not None:
        _refuse(arguments, _LINES, "--generate reads no input")
        return
    _refuse(arguments, _GENERATED, "only --generate takes it")
    if arguments.json:
        _refuse(arguments, ("key_separator", "null"), "lines of --json say which key and value they have")


def _refuse(arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        given = getattr(arguments, name)
        if given is not None and given is not False:
            raise UsageError(f"--{name.replace('_', '-')}: {why}")


def entry_reader(arguments: argparse.Namespace, partitions: Sequence[Partition], *, is_chosen: bool) -> ReadEntry:
    """Returns the function that reads one line of the input.

    `partitions` are those of the topic. `is_chosen` says that the command line names one of them, which counts more
    than what lines say.
    """
    if not arguments.json:
        return LineFormat(arguments.key_separator, arguments.null).entry
    numbers = {each.number for each in partitions}

    def read(line: bytes, number: int) -> Entry:
        entry = json_entry(line, number)
        if is_chosen or entry.partition is None:
            return entry._replace(partition=None)
        if entry.partition not in numbers:
            topic = partitions[0].topic
            raise LineError(
                f"line {number}: {topic} has no partition {entry.partition}; remove the field `partition`, and the key "
                "chooses one"
            )
        return entry

    return read


def headers_of(given: Sequence[str]) -> Headers:
    """Reads the values of `--header`. Raises UsageError."""
    headers: list[tuple[str, bytes | None]] = []
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"--header {each}: expected NAME=VALUE")
        name.encode()  # raises UnicodeEncodeError: clients cannot read a header whose name is not text
        headers.append((name, value.encode(errors="surrogateescape")))
    return headers


class Generation(Struct, frozen=True):
    """What `--generate` and its options say."""

    count: int
    rate: float | None
    seed: int
    value_bytes: int
    key_count: int


def generation(arguments: argparse.Namespace) -> Generation | None:
    """Returns what is to be generated; None without `--generate`."""
    if arguments.generate is None:
        return None
    return Generation(
        arguments.generate,
        arguments.rate,
        arguments.seed or 0,
        GENERATED_BYTES if arguments.size is None else arguments.size,
        GENERATED_KEYS if arguments.keys is None else arguments.keys,
    )


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _number(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    number = _number(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def _size(text: str) -> int:
    size = _positive(text)
    if size > GENERATED_BYTES_MAX:
        raise argparse.ArgumentTypeError(f"{text} is more than {GENERATED_BYTES_MAX}")
    return size


def _rate(text: str) -> float:
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text) is None or not float(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of records per second")
    return float(text)
