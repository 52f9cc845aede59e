"""`tailrace trigger invoke FILE --event TEXT`: calls a function without a cluster, and prints what it did.

Exit status: 0 done, 1 the function failed, 2 wrong usage or a file that cannot be used.
"""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tailrace.cli.options.sc_options import DONE, REFUSED, WRONG_USAGE, UsageError, offset, say
from tailrace.cli.output.printing import content_document, counted, for_encoding, plain, shortened
from tailrace.cli.output.times import moment
from tailrace.runtime.files import RealFiles
from tailrace.trigger.config.trigger_settings import Given
from tailrace.trigger.functions.function_loader import Function
from tailrace.trigger.testing import FunctionUnderTest, Invocation, LogLine, event
from tailrace.trigger.testing.invocation import TOPIC, EventParts
from tailrace.trigger.work import Output

from .trigger_options import GivenTrigger, add_function, add_settings, given_trigger, load_function

_NAME = "trigger invoke"
_SETTINGS = ("name", "topic", "batch_size", "acknowledgement", "environment")
"""The settings that have an effect on one call."""
_STANDARD_INPUT = "-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_function(parser)
    parser.add_argument(
        "--event", metavar="TEXT", action="append", help="Body of an event; may be repeated for several events."
    )
    parser.add_argument("--event-file", metavar="PATH", help="File with the body of an event; - reads standard input.")
    parser.add_argument("--key", metavar="TEXT", help="Key of each event.")
    parser.add_argument(
        "--header", metavar="NAME=VALUE", action="append", help="Header of each event; may be repeated."
    )
    parser.add_argument("--shard", metavar="N", type=offset, default=0, help="Number of the shard (default: 0).")
    parser.add_argument("--offset", metavar="N", type=offset, default=0, help="Offset of the first event (default: 0).")
    parser.add_argument("--time", metavar="TIME", type=moment, help="Time of each event, such as 2026-01-31T12:00:00Z.")
    parser.add_argument(
        "--output", "-o", choices=("table", "json"), default="table", help="Output format (default: table)."
    )
    add_settings(parser, only=_SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Calls the function, and returns the exit status."""
    try:
        events = _events(arguments)
        given = given_trigger(arguments, general={"topic": Given(TOPIC, "")})
        function = _ready(given)
    except UsageError as error:
        say(_NAME, str(error))
        return WRONG_USAGE
    for warning in given.warnings:
        say(_NAME, warning)
    try:
        for done in _calls(function, given, events):
            _show(done, arguments.output)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _show_failure(error, given.source.path)
        return REFUSED
    return DONE


def _ready(given: GivenTrigger) -> Function:
    """Prepares the process for calls: the function may import its neighbours later, and see its variables."""
    if given.config.environment:
        os.environ.update(given.config.environment)
        # The file may read variables while it is loaded, so it is loaded once more.
        return load_function(given.source)
    sys.path.insert(0, given.source.import_directory)
    return given.function


def _calls(function: Function, given: GivenTrigger, events: list[EventParts]) -> Iterator[Invocation]:
    """Calls the function with all events at once if it takes lists, and otherwise with each of them."""
    takes_batches = bool(given.config.batch_size)
    with FunctionUnderTest(
        function.call,
        init_context=function.init_context,
        name=given.config.name,
        topic=given.config.topic,
        takes_batches=takes_batches,
        may_acknowledge=given.config.is_explicit,
        on_log=_show_log,
    ) as tested:
        if takes_batches:
            yield tested.invoke_batch(events)
        else:
            yield from map(tested.invoke, events)


# events


def _events(arguments: argparse.Namespace) -> list[EventParts]:
    bodies = [os.fsencode(each) for each in arguments.event or ()]
    if arguments.event_file is not None:
        bodies.append(_content(arguments.event_file))
    if not bodies:
        raise UsageError("give the body of an event with --event or --event-file")
    headers: dict[str, bytes | str | None] = {}
    for each in arguments.header or ():
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"--header {each}: expected NAME=VALUE")
        headers[name] = os.fsencode(value)
    return [
        event(
            body,
            key=None if arguments.key is None else os.fsencode(arguments.key),
            headers=headers,
            shard=arguments.shard,
            offset=arguments.offset + number,
            timestamp=None if arguments.time is None else _EPOCH + timedelta(milliseconds=arguments.time),
        )
        for number, body in enumerate(bodies)
    ]


def _content(path: str) -> bytes:
    if path == _STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return RealFiles(read_only=True).read(path)
    except OSError as error:
        raise UsageError(f"--event-file {path}: {error.strerror}") from error


# output


def _show(done: Invocation, output: str) -> None:
    if output == "json":
        print(json.dumps(_document(done), default=repr))
        return
    lines = [] if done.returned is None else [f"returned      {done.returned!r}"]
    lines += [f"emitted       {_line(each)}" for each in done.emitted]
    lines += [f"acknowledged  offset {each}" for each in sorted(done.acknowledged)]
    lines += [f"failed        offset {each}{f': {reason}' if reason else ''}" for each, reason in done.failed.items()]
    for line in lines or [f"handled       {counted(len(done.events), 'event')}"]:
        print(for_encoding(plain(line), sys.stdout.encoding))


def _line(output: Output) -> str:
    partition = "" if output.partition is None else f"/{output.partition}"
    parts = [f"{output.topic}{partition}"]
    if output.key is not None:
        parts.append(f"key={shortened(output.key)}")
    parts.append(f"value={shortened(output.value)}")
    parts += [f"{name}={shortened(value)}" for name, value in output.headers]
    return " ".join(parts)


def _document(done: Invocation) -> dict[str, object]:
    return {
        "returned": content_document(done.returned) if isinstance(done.returned, bytes) else done.returned,
        "emitted": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "key": content_document(each.key),
                "value": content_document(each.value),
                "headers": [{"name": name, "value": content_document(value)} for name, value in each.headers],
            }
            for each in done.emitted
        ],
        "logs": [{"level": each.level, "message": each.message, **each.fields} for each in done.logs],
        "acknowledged": sorted(done.acknowledged),
        "failed": {str(each): reason for each, reason in done.failed.items()},
    }


def _show_log(line: LogLine) -> None:
    fields = "".join(f" {name}={value!r}" for name, value in line.fields.items() if name != "exc_info")
    text = plain(f"{line.level:8} {line.message}{fields}")
    print(for_encoding(text, sys.stderr.encoding), file=sys.stderr)


def _show_failure(error: BaseException, path: str) -> None:
    """Prints the traceback from the function's file on, and then the error in one sentence."""
    sys.stdout.flush()
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != path:
        frame = frame.tb_next
    trace = frame or error.__traceback__
    lines = traceback.format_exception(type(error), error, trace)
    print(for_encoding("".join(lines), sys.stderr.encoding), end="", file=sys.stderr)
    found = [each for each in traceback.extract_tb(trace) if each.filename == path]
    place = f"{path}: line {found[-1].lineno}: " if found else ""
    what = " ".join(str(error).split())
    say(_NAME, f"{place}the function failed: {type(error).__name__}{': ' if what else ''}{what}")
