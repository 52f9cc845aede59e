"""The base of every command that asks servers: common options, exit statuses, and the output of documents.

A command asks the Streaming Controller (SC), or brokers of Tailrace or Apache Kafka: see `server_choice.py`.

Exit status: 0 done, 1 refused or not found, 2 wrong usage, 3 the SC cannot be reached, 4 stored but not in effect yet.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

import trio
from msgspec import Struct

from tailrace.cli.output.printing import for_encoding, plain
from tailrace.cli.output.watch import WATCH_SECONDS, Seen, watch_seconds
from tailrace.client.client_network import secured
from tailrace.client.sc_client import SC, SC_OR_BROKERS, Document, ScClient
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.cluster.configs.config_definitions import ConfigDefinition, without_effect
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.controller.objects.document_fields import FieldError
from tailrace.controller.objects.object_documents import parse_object, read_document
from tailrace.controller.objects.objects import Object
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Network, TcpNetwork
from tailrace.runtime.process import run_until_stopped
from tailrace.runtime.settings import SettingsError
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE
from tailrace.runtime.wall_clock import SystemClock, WallClock

from .client_config import client_config_option
from .document_files import DocumentError, read_documents
from .server_choice import SC_DEFAULT, Answerer, ServerChoice, ServerChoiceError, choose_servers

OUTPUTS = ("table", "json", "yaml")
WAIT_SECONDS_MAX = 3600

T = TypeVar("T")

DONE = 0
REFUSED = 1
WRONG_USAGE = 2
UNREACHABLE = 3
NOT_IN_EFFECT = 4

_CLOCK = SystemClock()

Ask = Callable[[ScClient, argparse.Namespace], Awaitable[int | None]]
"""Asks servers and prints the result; returns the exit status, or None for success."""
AskBrokers = Callable[[SpuClient, argparse.Namespace], Awaitable[int | None]]
"""Asks brokers, of Tailrace or Apache Kafka, and prints the result; returns the exit status, or None for success."""


class UsageError(Exception):
    """The command line is wrong; the message is one sentence that says how."""


class NotInEffectError(Exception):
    """The change is stored, but something is missing before it has an effect. Each sentence says what."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("; ".join(sentences))
        self.sentences = sentences


class StoppedError(Exception):
    """A signal ended the command before it was done; the message says how far it came."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.status = 128 + signal_number
        """The exit status with which shells report such an end."""


class Command(Struct, frozen=True):
    """One command: its options, and a function that asks servers and prints what they respond."""

    name: str
    """The command without `tailrace`, for example `topic list`."""
    options: Callable[[argparse.ArgumentParser], None]
    """Adds the command's own options to a parser."""
    ask: Ask
    """Asks the SC and prints the result."""
    is_watchable: bool = False
    """Whether the command has `--watch`, because it changes nothing."""
    wall_clock: WallClock = _CLOCK
    watches_failures: bool = False
    """Whether `--watch` goes on if the first attempt fails, because failures are what the command is about."""
    ask_brokers: AskBrokers | None = None
    """Does the same with brokers that `--bootstrap` names; None if only the SC can answer."""
    takes_both: bool = False
    """Whether the command takes `--sc` and `--bootstrap` together: it finds brokers by itself."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of the command and the common ones."""
        self.options(parser)
        parser.add_argument(
            "--sc",
            metavar="HOST:PORT[,HOST:PORT]",
            help=f"Public addresses of the SC and its standbys (default: ${SC_VARIABLE}, or {SC_DEFAULT}).",
        )
        if not self.takes_both:
            parser.add_argument("--bootstrap", metavar="HOST:PORT[,HOST:PORT]", help=self._bootstrap_help)
        client_config_option(parser)
        parser.add_argument("--output", "-o", choices=OUTPUTS, default="table", help="Output format (default: table).")
        if self.is_watchable:
            parser.add_argument(
                "--watch",
                metavar="SECONDS",
                nargs="?",
                type=watch_seconds,
                const=WATCH_SECONDS,
                help=f"Repeat every SECONDS (default: {WATCH_SECONDS:g}) and show changes, until Ctrl-C.",
            )

    @property
    def _bootstrap_help(self) -> str:
        if self.ask_brokers is None:
            return argparse.SUPPRESS
        return f"Ask these SPUs, or brokers of Apache Kafka, instead of the SC (default: ${BOOTSTRAP_VARIABLE})."

    @property
    def _answerer(self) -> Answerer:
        if self.takes_both:
            return Answerer.BOTH
        return Answerer.SC if self.ask_brokers is None else Answerer.EITHER

    def run(self, arguments: argparse.Namespace) -> int:
        """Runs the command over TCP and returns its exit status."""
        try:
            return trio.run(self.execute, arguments, TcpNetwork())
        except BaseExceptionGroup as group:
            # Ctrl-C while several tasks ask SPUs.
            raise first_error(group) from None

    async def execute(self, arguments: argparse.Namespace, network: Network) -> int:
        """Runs the command, once or with `--watch` repeatedly, and returns its exit status."""
        if getattr(arguments, "watch", None) is None:
            return await self._once(arguments, network, None)
        statuses: list[int] = []

        async def watch() -> None:
            seen = Seen(self.wall_clock)
            arguments.seen = seen
            statuses.append(await self._once(arguments, network, seen))
            # If the first attempt fails, the command ends, because a retry would hardly help.
            while self.watches_failures or statuses[0] == DONE:
                await trio.sleep(arguments.watch)
                await self._once(arguments, network, seen)

        await run_until_stopped(watch)
        return statuses[0] if statuses and not self.watches_failures else DONE

    async def _once(self, arguments: argparse.Namespace, network: Network, seen: Seen | None) -> int:
        try:
            network = secured(network, arguments.client_config, os.environ)
            chosen = choose_servers(arguments.sc, arguments.bootstrap, os.environ, self._answerer)
            status = await self._ask(chosen, arguments, network)
        except (UsageError, DocumentError, FieldError, SettingsError, ServerChoiceError) as error:
            return self._fail(error, WRONG_USAGE, seen)
        except RefusedError as error:
            return self._fail(error, REFUSED, seen)
        except UnreachableError as error:
            return self._fail(error, UNREACHABLE, seen)
        except StoppedError as error:
            return self._fail(error, error.status, seen)
        except NotInEffectError as error:
            for sentence in error.sentences:
                say(self.name, sentence)
            return NOT_IN_EFFECT
        except UnicodeEncodeError as error:
            # Only bytes on the command line that are not text can lead to such a string.
            return self._fail(UsageError(f"{error.object!r:.300} is not Unicode"), WRONG_USAGE, seen)
        return DONE if status is None else status

    async def _ask(self, chosen: ServerChoice, arguments: argparse.Namespace, network: Network) -> int | None:
        if chosen.are_brokers:
            assert self.ask_brokers is not None, "otherwise the choice is refused"
            with closing(SpuClient(network, chosen.addresses, BOOTSTRAP)) as spus:
                return await self.ask_brokers(spus, arguments)
        with closing(ScClient(network, chosen.addresses, SC if self.ask_brokers is None else SC_OR_BROKERS)) as sc:
            return await self.ask(sc, arguments)

    def _fail(self, error: Exception, status: int, seen: Seen | None) -> int:
        if seen is None or seen.is_news(str(error)):
            say(self.name, str(error))
        return status


# output


def say(name: str, sentence: str) -> None:
    """Prints a sentence that is not part of the command's result, on standard error."""
    sys.stdout.flush()
    print(for_encoding(plain(f"tailrace {name}: {sentence}"), sys.stderr.encoding), file=sys.stderr)


def internal_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--internal`."""
    parser.add_argument(
        "--internal", action="store_true", help="Also show the topics that the cluster uses itself, such as offsets."
    )


def without_internal(arguments: argparse.Namespace, found: Sequence[T], topic_of: Callable[[T], str]) -> list[T]:
    """Returns what does not belong to internal topics, or everything with `--internal`."""
    return [each for each in found if arguments.internal or topic_of(each) not in INTERNAL_TOPICS]


def say_without_effect(name: str, configs: Iterable[str], table: Mapping[str, ConfigDefinition]) -> None:
    """Says on standard error which of the configs change nothing."""
    for each in without_effect(configs, table):
        say(name, f"{each} has no effect in Tailrace")


def no_options(parser: argparse.ArgumentParser) -> None:
    """Adds no options; for commands that have only the common ones."""


class RecentChanges(Struct, frozen=True):
    """Changes since the last look of `--watch`, which are shown beside the current state."""

    documents: object
    """The documents with the changes in them."""
    text: str
    """The text to show below the table."""


def show_documents(
    arguments: argparse.Namespace, documents: object, as_table: Callable[[], str], changes: RecentChanges | None = None
) -> None:
    """Prints documents as a table, JSON or YAML; with `--watch` only if something has changed."""
    seen = seen_before(arguments)
    if seen is None:
        _show(arguments, documents, as_table)
        return
    text = as_table() if arguments.output == "table" else json.dumps(documents)
    if seen.is_news(text) or changes is not None:
        if changes is not None:
            documents, text = changes.documents, f"{text}\n\n{changes.text}"
        show_next(arguments, documents, lambda: seen.headed(text))
        sys.stdout.flush()


def seen_before(arguments: argparse.Namespace) -> Seen | None:
    """Returns what `--watch` has shown; None without `--watch`."""
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
    """Prints one of many documents, which programs read one by one: a line of JSON, or YAML after `---`."""
    match arguments.output:
        case "json":
            print(json.dumps(document))
        case "yaml":
            print("---")
            _show(arguments, document, as_text)
        case _:
            print(for_encoding(as_text(), sys.stdout.encoding))


def objects_in(kind: str, documents: Sequence[Document]) -> list[Object]:
    """Returns the objects that the SC's documents describe."""
    try:
        return [read_document(kind, document) for document in documents]
    except FieldError as error:
        raise UnreachableError(f"the SC sent an object that this version cannot read: {error}") from error


# input


def documents_of_file(kind: str, path: str, name: str | None) -> list[Document]:
    """Reads the objects of a file and checks them as far as possible; `name` names an object without a name."""
    documents = []
    for document in objects_of_file(path):
        try:
            parse_object(kind, document, name)
        except FieldError as error:
            raise DocumentError(f"{path}: {error}") from error
        assert isinstance(document, dict), "parse_object accepts only dictionaries"
        if name is not None and document.get("name", name) != name:
            raise DocumentError(f"{path}: name: it is {document['name']!r:.300} and should be {name!r}")
        documents.append(document if name is None else {"name": name} | document)
    if not documents:
        raise DocumentError(f"{path}: the file has no document")
    return documents


def objects_of_file(path: str) -> list[object]:
    """Reads the documents of a file. A list of documents, as `--output` prints it, counts as its elements."""
    found: list[object] = []
    for document in read_documents(text_of_file(path), path):
        if isinstance(document, list) and all(isinstance(each, dict) for each in document):
            found += document
        else:
            found.append(document)
    return found


def checked_document(kind: str, document: Document) -> Document:
    """Checks a document that was made from options, before a server is asked."""
    parse_object(kind, document)
    return document


def pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """Reads the values NAME=VALUE of a repeated option."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{flag} {each}: expected NAME=VALUE, such as retention.ms=60000")
        if name.strip() in found:
            raise UsageError(f"{flag} {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found


def only_given(document: Mapping[str, object]) -> Document:
    """Returns the fields that are not None."""
    return {name: value for name, value in document.items() if value is not None}


def wait_seconds(text: str) -> float:
    """Reads the value of `--wait`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= WAIT_SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to {WAIT_SECONDS_MAX}")
    return seconds


def offset(text: str) -> int:
    """Reads an offset on the command line."""
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not an offset")
    return int(text)


def text_of_file(path: str) -> str:
    """Reads a text file. Raises DocumentError."""
    try:
        return RealFiles(read_only=True).read(path).decode()
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: the file is not UTF-8") from error
