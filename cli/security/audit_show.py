"""`tailrace audit show`: shows the events of an audit log, from its files or from a topic."""

import argparse
import json
import os.path
import sys
from collections import deque
from collections.abc import Iterator, Mapping

from tailrace.cli.output.printing import for_encoding, plain
from tailrace.client.log_client import LogClient
from tailrace.runtime.files import Files, RealFiles
from tailrace.security.audit.audit_chain import parse_line
from tailrace.security.audit.audit_event import AuditKind, Outcome, is_of_event
from tailrace.security.audit.topic_verification import TopicVerification
from tailrace.server.auditing.audit_files import log_names

from .audit_directories import add_directory, audit_directories, lines_of, nothing_found
from .audit_topic_options import add_topic, ask_topic, check_without_topic, records_of

_NOTHING_TO_SHOW = 2
_KINDS = [kind.value for kind in AuditKind if is_of_event({"event": kind})]
_SHOWN = ("server", "principal", "address", "client_id", "mechanism", "operation", "resource")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_directory(parser)
    add_topic(parser)
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
    if arguments.last is not None and arguments.last < 1:
        return _fail(f"--last {arguments.last}: expected a number of at least 1")
    if arguments.topic is not None:
        return ask_topic("audit show", _show_topic, arguments)
    wrong = check_without_topic(arguments)
    if wrong is not None:
        return _fail(wrong)
    files = RealFiles(read_only=True)
    directories = audit_directories(files, arguments.directory)
    if not directories:
        return _fail(nothing_found(arguments.directory))
    try:
        events = (
            fields for directory in directories for fields in _events(files, directory) if _is_wanted(arguments, fields)
        )
        for fields in events if arguments.last is None else deque(events, maxlen=arguments.last):
            _print(arguments, fields)
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename} cannot be read: {error.strerror}")
    return 0


async def _show_topic(logs: LogClient, arguments: argparse.Namespace) -> int:
    verification, last = TopicVerification(), deque[Mapping[str, object]](maxlen=arguments.last)
    async for where, record in records_of(logs, arguments.topic):
        found = verification.read(where, record.key, record.value)
        if found is None or not is_of_event(found[1].fields) or not _is_wanted(arguments, found[1].fields):
            continue
        event = {"server": found[0], **found[1].fields}
        if arguments.last is None:
            _print(arguments, event)
        else:
            last.append(event)
    for each in last:
        _print(arguments, each)
    return 0


def _is_wanted(arguments: argparse.Namespace, fields: Mapping[str, object]) -> bool:
    wanted = {name: getattr(arguments, name) for name in ("event", "outcome", "principal") if getattr(arguments, name)}
    return wanted.items() <= fields.items() and (arguments.resource or "") in str(fields.get("resource", ""))


def _print(arguments: argparse.Namespace, fields: Mapping[str, object]) -> None:
    line = json.dumps(fields, ensure_ascii=False) if arguments.output == "json" else _text(fields)
    print(for_encoding(line, sys.stdout.encoding))


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
