"""`tailrace audit show DIR`: shows the events of an audit log."""

import argparse
import json
import os.path
import sys
from collections import deque
from collections.abc import Iterator, Mapping

from tailrace.cli.output.printing import for_encoding, plain
from tailrace.runtime.files import Files, RealFiles
from tailrace.security.audit.audit_chain import parse_line
from tailrace.security.audit.audit_event import AuditKind, Outcome, is_of_event
from tailrace.server.auditing.audit_files import log_names

from .audit_directories import add_directory, audit_directories, lines_of, nothing_found

_NOTHING_TO_SHOW = 2
_KINDS = [kind.value for kind in AuditKind if is_of_event({"event": kind})]
_SHOWN = ("principal", "address", "client_id", "mechanism", "operation", "resource")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_directory(parser)
    parser.add_argument("--event", choices=_KINDS, help="Show events of this kind only.")
    parser.add_argument("--outcome", choices=[each.value for each in Outcome], help="Show this outcome only.")
    parser.add_argument("--principal", metavar="PRINCIPAL", help="Show what this principal did, as User:alice.")
    parser.add_argument("--resource", metavar="TEXT", help="Show events whose resource contains this text.")
    parser.add_argument("--last", type=int, metavar="N", help="Show the last N of these events only.")
    parser.add_argument(
        "--output",
        "-o",
        choices=("table", "json"),
        default="table",
        help="Output format; json prints one object per event (default: table).",
    )


def run(arguments: argparse.Namespace) -> int:
    """Shows the events and returns the exit status."""
    files = RealFiles(read_only=True)
    directories = audit_directories(files, arguments.directory)
    if not directories:
        return _fail(nothing_found(arguments.directory))
    if arguments.last is not None and arguments.last < 1:
        return _fail(f"--last {arguments.last}: expected a number of at least 1")
    wanted = {name: getattr(arguments, name) for name in ("event", "outcome", "principal") if getattr(arguments, name)}
    try:
        events = (
            fields
            for directory in directories
            for fields in _events(files, directory)
            if wanted.items() <= fields.items() and (arguments.resource or "") in str(fields.get("resource", ""))
        )
        for fields in events if arguments.last is None else deque(events, maxlen=arguments.last):
            line = json.dumps(fields, ensure_ascii=False) if arguments.output == "json" else _text(fields)
            print(for_encoding(line, sys.stdout.encoding))
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename} cannot be read: {error.strerror}")
    return 0


def _events(files: Files, directory: str) -> Iterator[Mapping[str, object]]:
    for name in log_names(files, directory):
        for line in lines_of(files.read(os.path.join(directory, name))):
            parsed = parse_line(line.rstrip(b"\n"))
            if parsed is not None and is_of_event(parsed.fields):
                yield parsed.fields


def _text(fields: Mapping[str, object]) -> str:
    parts = [fields.get("time", ""), f"{fields.get('outcome', fields.get('event', '')):9}"]
    parts += [fields[name] for name in _SHOWN if name in fields]
    if "why" in fields:
        parts.append(f"({fields['why']})")
    if "count" in fields:
        parts.append(f"{fields['count']} times")
    return plain("  ".join(map(str, parts)))


def _fail(sentence: str) -> int:
    print(f"tailrace audit show: {sentence}", file=sys.stderr)
    return _NOTHING_TO_SHOW
