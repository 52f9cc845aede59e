"""What every command that asks the SC has in common: its options, how it ends, and how it shows documents.

Exit status: 0 done, 1 refused or not found, 2 wrong usage, 3 the SC cannot be reached.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio
from msgspec import Struct

from tailrace.cli.clients.sc_client import Document, ScClient
from tailrace.cli.clients.server_connection import RefusedError, UnreachableError
from tailrace.cli.output.printing import for_encoding, plain
from tailrace.cli.output.watch import WATCH_SECONDS, Seen, watch_seconds
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import parse_object, read_document
from tailrace.controller.objects.objects import Object
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, Network, TcpNetwork
from tailrace.runtime.process import run_until_stopped
from tailrace.runtime.settings import SettingsError, parse_address
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .document_files import DocumentError, read_documents

SC_VARIABLE = "TAILRACE_SC"
SC_DEFAULT = "127.0.0.1:9003"
OUTPUTS = ("table", "json", "yaml")
WAIT_SECONDS_MAX = 3600

DONE = 0
REFUSED = 1
WRONG_USAGE = 2
UNREACHABLE = 3

_CLOCK = SystemClock()

Ask = Callable[[ScClient, argparse.Namespace], Awaitable[None]]


class UsageError(Exception):
    """What stands on the command line cannot be meant: one sentence."""


class Command(Struct, frozen=True):
    """`tailrace GROUP NAME`: its options, and what it asks of the SC and prints."""

    name: str
    options: Callable[[argparse.ArgumentParser], None]
    ask: Ask
    is_watchable: bool = False
    """Whether it only looks, and may do so again and again."""
    wall_clock: WallClock = _CLOCK

    def configure(self, parser: argparse.ArgumentParser) -> None:
        self.options(parser)
        parser.add_argument(
            "--sc",
            metavar="HOST:PORT[,HOST:PORT]",
            help=f"the SC's public port, and its standbys' (default: ${SC_VARIABLE}, or {SC_DEFAULT})",
        )
        parser.add_argument("--output", "-o", choices=OUTPUTS, default="table", help="default: table")
        if self.is_watchable:
            parser.add_argument(
                "--watch",
                metavar="SECONDS",
                nargs="?",
                type=watch_seconds,
                const=WATCH_SECONDS,
                help=f"look every {WATCH_SECONDS:g} or SECONDS s, and show what has changed, until Ctrl-C",
            )

    def run(self, arguments: argparse.Namespace) -> int:
        try:
            return trio.run(self.execute, arguments, TcpNetwork())
        except BaseExceptionGroup as group:
            # Ctrl-C while several SPUs are asked at once.
            raise first_error(group) from None

    async def execute(self, arguments: argparse.Namespace, network: Network) -> int:
        if getattr(arguments, "watch", None) is None:
            return await self._once(arguments, network, None)
        statuses: list[int] = []

        async def watch() -> None:
            seen = Seen(self.wall_clock)
            arguments.seen = seen
            statuses.append(await self._once(arguments, network, seen))
            # What is wrong from the first is hardly a matter of time.
            while statuses[0] == DONE:
                await trio.sleep(arguments.watch)
                await self._once(arguments, network, seen)

        await run_until_stopped(watch)
        return statuses[0] if statuses else DONE

    async def _once(self, arguments: argparse.Namespace, network: Network, seen: Seen | None) -> int:
        try:
            client = ScClient(network, _addresses(arguments))
            try:
                await self.ask(client, arguments)
            finally:
                client.close()
        except (UsageError, DocumentError, FieldError, SettingsError) as error:
            return self._fail(error, WRONG_USAGE, seen)
        except RefusedError as error:
            return self._fail(error, REFUSED, seen)
        except UnreachableError as error:
            return self._fail(error, UNREACHABLE, seen)
        except UnicodeEncodeError as error:
            # Bytes on the command line that are no text: nothing else brings such a string.
            return self._fail(UsageError(f"{error.object!r:.300} is not Unicode"), WRONG_USAGE, seen)
        return DONE

    def _fail(self, error: Exception, status: int, seen: Seen | None) -> int:
        if seen is None or seen.is_news(str(error)):
            say(self.name, str(error))
        return status


def _addresses(arguments: argparse.Namespace) -> list[Address]:
    given, origin = arguments.sc, "--sc"
    if given is None:
        given, origin = os.environ.get(SC_VARIABLE) or SC_DEFAULT, SC_VARIABLE
    return [parse_address(each.strip(), origin, port_min=1) for each in given.split(",")]


# what commands print


def say(name: str, sentence: str) -> None:
    """What is no result of the command: on standard error."""
    sys.stdout.flush()
    print(for_encoding(plain(f"tailrace {name}: {sentence}"), sys.stderr.encoding), file=sys.stderr)


def no_options(parser: argparse.ArgumentParser) -> None:
    """Of a command that has none but those of all."""


class Happened(Struct, frozen=True):
    """What has happened since the last look, beside what is."""

    documents: object
    """The documents, with it."""
    text: str
    """What stands below the table."""


def show_documents(
    arguments: argparse.Namespace, documents: object, as_table: Callable[[], str], happened: Happened | None = None
) -> None:
    """As a table for people, or as they are; with `--watch` only what is another than before, or has happened since."""
    seen = seen_before(arguments)
    if seen is None:
        _show(arguments, documents, as_table)
        return
    text = as_table() if arguments.output == "table" else json.dumps(documents)
    if seen.is_news(text) or happened is not None:
        if happened is not None:
            documents, text = happened.documents, f"{text}\n\n{happened.text}"
        show_next(arguments, documents, lambda: seen.headed(text))
        sys.stdout.flush()


def seen_before(arguments: argparse.Namespace) -> Seen | None:
    """None without `--watch`."""
    seen: Seen | None = getattr(arguments, "seen", None)
    return seen


def _show(arguments: argparse.Namespace, documents: object, as_table: Callable[[], str]) -> None:
    match arguments.output:
        case "json":
            print(json.dumps(documents, indent=2))
        case "yaml":
            import yaml

            print(yaml.safe_dump(documents, sort_keys=False, default_flow_style=None, width=120), end="")
        case _:
            print(for_encoding(as_table(), sys.stdout.encoding))


def show_next(arguments: argparse.Namespace, document: object, as_text: Callable[[], str]) -> None:
    """One of many documents, of which programs read one after the other: a line of JSON each, or YAML behind `---`."""
    match arguments.output:
        case "json":
            print(json.dumps(document))
        case "yaml":
            print("---")
            _show(arguments, document, as_text)
        case _:
            print(for_encoding(as_text(), sys.stdout.encoding))


def objects_in(kind: str, documents: Sequence[Document]) -> list[Object]:
    """The objects that the SC's documents describe."""
    try:
        return [read_document(kind, document) for document in documents]
    except FieldError as error:
        raise UnreachableError(f"the SC answers what this version does not know: {error}") from error


# what commands are given


def documents_of_file(kind: str, path: str, name: str | None) -> list[Document]:
    """The objects of a file, after every check that can be made here; `name` is for one that has none."""
    documents = []
    for document in objects_of_file(path):
        try:
            parse_object(kind, document, name)
        except FieldError as error:
            raise DocumentError(f"{path}: {error}") from error
        assert isinstance(document, dict), "anything else is no object"
        if name is not None and document.get("name", name) != name:
            raise DocumentError(f"{path}: name: {document['name']!r:.300} stands where there should be {name!r}")
        documents.append(document if name is None else {"name": name} | document)
    if not documents:
        raise DocumentError(f"{path}: there is no document in it")
    return documents


def objects_of_file(path: str) -> list[object]:
    """The documents of a file, one by one also where it has them in a list, as `--output` writes them."""
    found: list[object] = []
    for document in read_documents(text_of_file(path), path):
        if isinstance(document, list) and all(isinstance(each, dict) for each in document):
            found += document
        else:
            found.append(document)
    return found


def checked_document(kind: str, document: Document) -> Document:
    """As made from flags: whatever is wrong with it is known before anybody is asked."""
    parse_object(kind, document)
    return document


def pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{flag} {each}: it takes NAME=VALUE, such as retention.ms=60000")
        if name.strip() in found:
            raise UsageError(f"{flag} {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found


def only_given(document: Mapping[str, object]) -> Document:
    """The fields that were given."""
    return {name: value for name, value in document.items() if value is not None}


def wait_seconds(text: str) -> float:
    """The type of a flag."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= WAIT_SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to {WAIT_SECONDS_MAX}")
    return seconds


def offset(text: str) -> int:
    """The type of a flag."""
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not an offset")
    return int(text)


def text_of_file(path: str) -> str:
    try:
        return RealFiles(read_only=True).read(path).decode()
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: it is not UTF-8") from error
