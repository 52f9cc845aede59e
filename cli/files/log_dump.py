"""`tailrace log dump FILE`: prints the content of a log's file, offline, as far as it can be read."""

import argparse
import json
import sys

from tailrace.cli.output.printing import for_encoding
from tailrace.runtime.files import RealFiles

from .file_dumps import DamageError, Dump, NotALogFileError, bytes_in_json, dump_of, record_line

_DAMAGED = 1
_NO_LOG_FILE = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="A .log, .index, .timeindex, .producers or .aborted file; a manifest, high-watermarks or promises file.",
    )
    parser.add_argument("--records", action="store_true", help="Print the records of each batch, too.")
    parser.add_argument(
        "--output",
        "-o",
        choices=("table", "json"),
        default="table",
        help="Output format; json prints one object per line (default: table).",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints a file and returns the exit status."""
    path: str = arguments.file
    try:
        dump = dump_of(RealFiles(read_only=True), path, with_records=arguments.records)
    except NotALogFileError:
        return _fail(f"{path} is not a file of a log", _NO_LOG_FILE)
    except OSError as error:
        return _fail(f"{path} cannot be read: {error.strerror}", _NO_LOG_FILE)
    try:
        if arguments.output == "json":
            _print_json(dump)
        else:
            _print_table(dump)
    except DamageError as error:
        return _fail(f"{path} is damaged: {error}", _DAMAGED)
    return 0


def _fail(sentence: str, status: int) -> int:
    sys.stdout.flush()
    print(f"tailrace log dump: {sentence}", file=sys.stderr)
    return status


def _print_json(dump: Dump) -> None:
    for row in dump.rows:
        print(json.dumps(row, default=bytes_in_json))


def _print_table(dump: Dump) -> None:
    _print_line(" ".join(format(column.title, column.layout) for column in dump.columns))
    for row in dump.rows:
        _print_line(" ".join(format(_text(column.text(row)), column.layout) for column in dump.columns))
        for record in row.get("records", ()):
            _print_line(" " * 11 + record_line(record))
        if "records_error" in row:
            _print_line(" " * 11 + f"the records cannot be read: {row['records_error']}")


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _print_line(text: str) -> None:
    print(for_encoding(text, sys.stdout.encoding))
