"""What the commands that serve have in common: flags, logs, how they stop, and how they say that they cannot start.

Each prints one line on standard output when it serves, and nothing after it. SIGTERM, SIGINT or SIGHUP stop it cleanly,
a second one at once. What cannot start says why in one sentence on standard error, and exits with status 1.
"""

import argparse
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import trio
from msgspec import Struct

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime import logs
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import CannotListenError
from tailrace.runtime.process import allow_many_files, running_ms, stop_signals
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import SettingsError

from .given_settings import GivenSettings, given_settings

LOG_FORMATS = ("text", "json")
COMMON_NAMES = frozenset({"data", "public", "metrics", "log-level", "log-format"})
YOUNG_OBJECTS_MAX = 20_000
"""So many objects come and do not go before the collector looks for cycles. With Python's 700 it did for every hundred
requests that wait for other SPUs, and found nothing: that was a fortieth of all work."""

Settings = TypeVar("Settings")
Served = TypeVar("Served")


class CannotServeError(Exception):
    """One sentence for the person who started the command."""


class Stoppable(Protocol):
    def stop(self) -> None: ...


class Stops:
    """Whom a signal asks for a clean stop. While there is nobody yet, it ends the start."""

    def __init__(self) -> None:
        self.server: Stoppable | None = None


class LogSettings(Struct, frozen=True):
    level: str
    format: str | None
    """None: text for a person, JSON for a machine."""


def add_common_flags(parser: argparse.ArgumentParser, *, public: str, metrics: str) -> None:
    """`public` and `metrics` say what the defaults are."""
    parser.add_argument("--data", metavar="DIR", help="where the data lives (default: under the user's data directory)")
    parser.add_argument(
        "--public",
        metavar="HOST:PORT[=HOST:PORT]",
        action="append",
        help="where clients connect, and what they are told to connect to if that is another address (default: "
        f"{public}); port 0 picks a free one; may be repeated",
    )
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help=f"where Prometheus scrapes (default: {metrics}, or a free port); or: off"
    )
    parser.add_argument("--config", metavar="FILE", help="a TOML file with these settings and a table [broker]")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="one of Kafka's broker settings, such as num.partitions=3",
    )
    parser.add_argument("--log-level", choices=sorted(logs.LEVELS), help="default: info")
    parser.add_argument("--log-format", choices=LOG_FORMATS, help="default: text on a terminal, else json")


def log_settings(given: GivenSettings) -> LogSettings:
    return LogSettings(given.one_of("log-level", logs.LEVELS) or "info", given.one_of("log-format", LOG_FORMATS))


def run_server(
    command: str,
    arguments: argparse.Namespace,
    names: frozenset[str],
    read: Callable[[GivenSettings], Settings],
    serve: Callable[[Settings, Seams, Stops], Awaitable[None]],
    refusals: tuple[type[Exception], ...] = (),
) -> int:
    """Reads the settings and serves until the end; the exit status.

    `refusals` are the errors whose text is a sentence for the person, beside those that every server may meet.
    """
    try:
        given = given_settings(names, arguments)
        settings = read(given)
        log = log_settings(given)
        seams = _seams_of(given)
    except SettingsError as error:
        return _refuse(command, error)
    logs.configure(log.level, json=None if log.format is None else log.format == "json")
    allow_many_files()
    sentences: tuple[type[Exception], ...] = (CannotServeError, CannotListenError, SettingsError, *refusals)
    refused: BaseException | None = None
    interrupted = False
    try:
        trio.run(_serve, serve, settings, seams)
    except* sentences as errors:
        refused = first_error(errors)
    except* KeyboardInterrupt:
        interrupted = True  # before signals were listened to: there is nothing to stop yet
    if interrupted:
        raise KeyboardInterrupt
    return 0 if refused is None else _refuse(command, refused)


async def _serve(serve: Callable[[Settings, Seams, Stops], Awaitable[None]], settings: Settings, seams: Seams) -> None:
    stops = Stops()
    async with stop_signals() as signals, trio.open_nursery() as nursery:
        nursery.start_soon(stop_when_asked, signals, stops, nursery.cancel_scope)
        await serve(settings, seams, stops)
        nursery.cancel_scope.cancel()


def _seams_of(given: GivenSettings) -> Seams:
    configs = BrokerConfigs(given.broker_settings())
    send_buffer_bytes = configs.value("socket.send.buffer.bytes")
    assert isinstance(send_buffer_bytes, int)
    return real_seams(send_buffer_bytes=send_buffer_bytes, waits_awake=configs.value("socket.wait.awake") is True)


def announce(serving: str) -> None:
    """The one line on standard output: `serving` says who serves, and where. If nobody takes it, it is lost."""
    gc.collect()
    gc.freeze()  # what start-up made lives on: the collector need not look at it again
    gc.set_threshold(YOUNG_OBJECTS_MAX)  # hardly anything that requests make is garbage in cycles
    with suppress(OSError):
        print(f"ready {serving} in {running_ms()} ms", flush=True)


class Announcement(Struct, Generic[Served], frozen=True):
    """Told by a server where it serves, it tells the person. One that was stopped before that serves nowhere."""

    text: Callable[[Served], str]

    def started(self, value: Served | None = None) -> None:
        if value:
            announce(self.text(value))


async def stop_when_asked(signals: AsyncIterator[int], stops: Stops, scope: trio.CancelScope) -> None:
    """The first signal asks for a clean stop; a second one does not wait for it."""
    await anext(signals)
    if stops.server is not None:
        stops.server.stop()
        await anext(signals)
    scope.cancel()


def _refuse(command: str, reason: BaseException) -> int:
    print(f"tailrace {command}: {reason}", file=sys.stderr)
    return 1
