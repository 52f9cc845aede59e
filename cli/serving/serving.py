"""The base of the commands that run servers: options, logs, stop signals, and refusals to start.

Each command prints one line on standard output when it is ready, and nothing after it. SIGTERM, SIGINT or SIGHUP stop
the server cleanly, and a second signal at once. A server that cannot start says why in one sentence on standard error,
and exits with status 1, or with status 2 if a setting is wrong.
"""

import argparse
import gc
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_definitions import without_effect
from tailrace.runtime import logs
from tailrace.runtime.network import Address, CannotListenError
from tailrace.runtime.process import ServerStop, allow_many_files, print_ready, serve_until_stopped
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import ListenerSettings, SettingsError

from .given_settings import GivenSettings, about_unknown, given_settings, ineffective_variables
from .security_check import warning_of_open_listeners

COMMON_NAMES = frozenset({"data", "public", "metrics", "log-level", "log-format", "insecure"})
CANNOT_START = 1
WRONG_SETTING = 2
YOUNG_OBJECTS_MAX = 2_000
"""How many new objects there must be before the garbage collector looks for cycles.

With Python's default of 700 it ran for every hundred requests that wait for other SPUs, found nothing, and took a
fortieth of the CPU time. All clients wait while it looks, so the number must not be large either.
"""
YOUNG_COLLECTIONS_MAX = 4
"""After how many collections of new objects the next one also looks at the objects that those have left.

Objects that clients let a server keep, such as members of groups, accumulate until then. Python's default of 10 makes
the server stand still for twice as long.
"""
MIDDLE_COLLECTIONS_MAX = 220
"""After how many of those the collector looks at all objects: after about two million new ones that stay."""

Settings = TypeVar("Settings")
Served = TypeVar("Served")


class CannotServeError(Exception):
    """The server cannot start; the message is one sentence for the person who started the command."""


class LogSettings(Struct, frozen=True):
    """The level and format of the log."""

    level: str
    format: str | None
    """The format; None stands for text on a terminal and JSON elsewhere."""


def add_published(parser: argparse.ArgumentParser) -> None:
    """Adds the option of servers whose port a container engine publishes."""
    parser.add_argument(
        "--published",
        metavar="HOST:PORT",
        help="Address at which the port of this container is published, as in `docker run -p`: "
        "what clients from outside the container's networks are told (default: the address that they reach).",
    )


def add_common_flags(parser: argparse.ArgumentParser, *, public: str, metrics: str) -> None:
    """Adds the options of all servers. `public` and `metrics` describe the defaults."""
    parser.add_argument("--data", metavar="DIR", help="Data directory (default: in the user's data directory).")
    parser.add_argument(
        "--public",
        metavar="HOST:PORT[=HOST:PORT]",
        action="append",
        help="Address to listen on for clients, and the address to advertise if it differs "
        f"(default: {public}). Port 0 picks a free port. May be repeated.",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help=f"Address to listen on for Prometheus, or off (default: {metrics}, or a free port).",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file with these settings and a table [broker]. Environment variables work as well, such as "
        "TAILRACE_PUBLIC and TAILRACE_BROKER_NUM_PARTITIONS; `tailrace config check` checks both.",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="Broker config of Kafka, such as num.partitions=3; may be repeated.",
    )
    parser.add_argument(
        "--insecure",
        action="store_const",
        const="true",
        help="Do not warn that the server can be reached from other machines without TLS and SASL.",
    )
    parser.add_argument("--log-level", choices=sorted(logs.LEVELS), help="Lowest level to log (default: info).")
    parser.add_argument(
        "--log-format", choices=logs.FORMATS, help="Format of the log (default: text on a terminal, otherwise json)."
    )


def add_until_input_ends(parser: argparse.ArgumentParser, server: str) -> None:
    """Adds the option of servers that other programs start; `server` is what stops, for the help."""
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help=f"Stop when standard input ends, so that {server} does not outlive its parent process.",
    )


def log_settings(given: GivenSettings) -> LogSettings:
    """Reads the settings of the log."""
    return LogSettings(given.one_of("log-level", logs.LEVELS) or "info", given.one_of("log-format", logs.FORMATS))


def run_server(
    command: str,
    arguments: argparse.Namespace,
    names: frozenset[str],
    read: Callable[[GivenSettings], Settings],
    serve: Callable[[Settings, Seams, ServerStop], Awaitable[None]],
    refusals: tuple[type[Exception], ...] = (),
) -> int:
    """Reads the settings, serves until the server stops, and returns the exit status.

    `refusals` are further errors whose message is a sentence for the person who started the command.
    """
    try:
        given = given_settings(names, arguments)
        settings = read(given)
        log = log_settings(given)
        may_be_open = given.switch("insecure") or given.has("secure")  # --secure brings its own settings
        seams = _seams_of(given)
    except SettingsError as error:
        return _refuse(command, error, WRONG_SETTING)
    for variable in ineffective_variables(os.environ):
        print(f"tailrace {command}: {about_unknown(variable)}", file=sys.stderr, flush=True)
    for config in without_effect(given.broker_settings(), BROKER_CONFIGS):
        print(f"tailrace {command}: {config} has no effect in Tailrace", file=sys.stderr, flush=True)
    warning = None if may_be_open else warning_of_open_listeners(given.broker_settings(), _listeners_of(given))
    if warning is not None:
        print(f"tailrace {command}: {warning}", file=sys.stderr, flush=True)
    logs.configure(log.level, json=None if log.format is None else log.format == "json")
    allow_many_files()
    sentences: tuple[type[Exception], ...] = (CannotServeError, CannotListenError, SettingsError, *refusals)
    refused = serve_until_stopped(partial(serve, settings, seams), sentences)
    if refused is None:
        return 0
    return _refuse(command, refused, WRONG_SETTING if isinstance(refused, SettingsError) else CANNOT_START)


def _listeners_of(given: GivenSettings) -> list[ListenerSettings]:
    """Returns the listeners for clients and servers whose addresses were given; others are for this machine only."""
    private = [
        given.listener(option, ListenerSettings("PRIVATE", Address("localhost", 0)))
        for option in ("private", "sc-private")
        if given.has(option)
    ]
    return [*given.listeners(), *private]


def _seams_of(given: GivenSettings) -> Seams:
    configs = BrokerConfigs(given.broker_settings())
    send_buffer_bytes = configs.value("socket.send.buffer.bytes")
    assert isinstance(send_buffer_bytes, int)
    return real_seams(send_buffer_bytes=send_buffer_bytes, waits_awake=configs.value("socket.wait.awake") is True)


def announce(serving: str) -> None:
    """Prints the line that says that the server is ready; `serving` says which server, and where."""
    print_ready(serving)
    # Requests leave hardly any garbage in cycles.
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_COLLECTIONS_MAX, MIDDLE_COLLECTIONS_MAX)


class Announcement(Struct, Generic[Served], frozen=True):
    """A task status that announces a server when it has started; a server that was stopped before is not announced."""

    text: Callable[[Served], str]
    """Returns what to announce of a server."""

    def started(self, value: Served | None = None) -> None:
        """Announces the server; called by Trio's convention when the server is ready."""
        if value:
            announce(self.text(value))


def _refuse(command: str, reason: BaseException, status: int) -> int:
    text = _with_next_step(reason) if isinstance(reason, CannotListenError) else str(reason)
    print(f"tailrace {command}: {text}", file=sys.stderr)
    return status


def _with_next_step(error: CannotListenError) -> str:
    """Says why the server cannot listen, and what to do."""
    from tailrace.runtime.neighbours.occupants import in_use, process_on_port  # imported here because few starts fail

    text = str(error)
    if error.port_in_use is not None:
        owner = process_on_port(error.port_in_use)
        text = f"{text.rpartition(': ')[0]}: {in_use('the address', owner, 'another program')}"
    return f"{text}, or choose another address with {error.flag} HOST:PORT" if error.flag else text
