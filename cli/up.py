"""`tailrace up`: a whole local cluster in one process, ready for any Kafka client.

Prints one line on standard output when it serves: `ready bootstrap=HOST:PORT[,HOST:PORT] in N ms`. SIGTERM or SIGINT
stop it cleanly; everything else goes to the log on standard error.
"""

import argparse
import gc
import os
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import replace

import trio

from tailrace.broker.spu import Spu, StartError
from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.controller.key_value.interface import NO_VERSION, KeyValueStore, Put
from tailrace.controller.object_codec import encode, key_of
from tailrace.controller.objects import PublicEndpoint
from tailrace.controller.objects import Spu as Registered
from tailrace.controller.objects import SpuSpec as RegisteredSpec
from tailrace.controller.streaming_controller import ScAddresses, StreamingController
from tailrace.protocol.ids import SpuId
from tailrace.runtime import logs
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, CannotListenError
from tailrace.runtime.process import allow_many_files, running_ms, stop_signals
from tailrace.runtime.seams import Seams, real_seams
from tailrace.runtime.settings import ListenerSettings, ScSettings, SettingsError, SpuSettings, parse_address
from tailrace.runtime.settings_sources import default_data_directory, merge, read_file

from .sc_store import opened_store
from .serving import CannotServeError

SC_PUBLIC = Address("127.0.0.1", 9003)
SC_PRIVATE = Address("127.0.0.1", 9004)
DEFAULT_PUBLIC = "127.0.0.1:9005,127.0.0.1:9092"
METRICS = Address("127.0.0.1", 9008)
LOG_FORMATS = ("text", "json")
_NAMES = frozenset({"data", "public", "spus", "metrics", "log-level", "log-format", "broker"})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", help="where the data lives (default: under the user's data directory)")
    parser.add_argument(
        "--public",
        metavar="HOST:PORT[=HOST:PORT]",
        action="append",
        help="where clients connect, and what they are told to connect to if that is another address (default: "
        f"{DEFAULT_PUBLIC}); port 0 picks a free one; may be repeated",
    )
    parser.add_argument("--spus", metavar="N", type=int, help="how many SPUs to run (default: 1)")
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help=f"where Prometheus scrapes (default: {METRICS}, or a free port); or: off"
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


def run(arguments: argparse.Namespace) -> int:
    try:
        merged = _merged(arguments)
        settings = _settings(merged)
        log_level = _one_of(logs.LEVELS, merged, "log-level") or "info"
        log_format = _one_of(LOG_FORMATS, merged, "log-format")
        send_buffer_bytes = BrokerConfigs(settings.broker).value("socket.send.buffer.bytes")
    except SettingsError as error:
        return _fail(str(error))
    logs.configure(log_level, json=None if log_format is None else log_format == "json")
    allow_many_files()
    assert isinstance(send_buffer_bytes, int)
    seams = real_seams(send_buffer_bytes=send_buffer_bytes)
    refused: str | None = None
    try:
        trio.run(_up, settings, seams)
    except* (CannotServeError, StartError, CannotListenError, SettingsError) as errors:
        refused = str(first_error(errors))
    return 0 if refused is None else _fail(refused)


def _fail(sentence: str) -> int:
    print(f"tailrace up: {sentence}", file=sys.stderr)
    return 1


async def _up(settings: SpuSettings, seams: Seams) -> None:
    logger = logs.get_logger()
    sc_settings = ScSettings(
        f"{settings.data_directory}/sc",
        (ListenerSettings("PUBLIC", SC_PUBLIC, may_move=True),),
        ListenerSettings("PRIVATE", SC_PRIVATE, may_move=True),
        broker=settings.broker,
    )
    async with (
        stop_signals() as signals,
        opened_store(sc_settings.store, sc_settings.data_directory, seams, logger) as store,
        trio.open_nursery() as nursery,
    ):
        await _register(store, SpuId(settings.id))
        sc = StreamingController(sc_settings, seams, store, logger)
        where: ScAddresses = await nursery.start(sc.run)
        directory = f"{settings.data_directory}/spu-{settings.id}"
        spu = Spu(replace(settings, data_directory=directory, controllers=(where.private,)), seams, logger)
        nursery.start_soon(_stop_on_signal, signals, spu, nursery.cancel_scope)
        async with trio.open_nursery() as serving:
            addresses: list[Address] = await serving.start(spu.run)
            gc.collect()
            gc.freeze()  # what start-up made lives on: the collector need not look at it again
            print(f"ready bootstrap={','.join(map(str, addresses))} in {running_ms()} ms", flush=True)
        nursery.cancel_scope.cancel()


async def _register(store: KeyValueStore, spu: SpuId) -> None:
    """So that it may connect; nothing, if it is registered."""
    # Port 0: clients are told what the SPU itself says.
    registered = Registered(RegisteredSpec(spu, public=PublicEndpoint(port=0)))
    await store.write([Put(key_of(registered), encode(registered), NO_VERSION)])


async def _stop_on_signal(signals: AsyncIterator[int], spu: Spu, scope: trio.CancelScope) -> None:
    """The first signal asks for a clean stop; a second one does not wait for it."""
    await anext(signals)
    spu.stop()
    await anext(signals)
    scope.cancel()


def _merged(arguments: argparse.Namespace) -> dict[str, object]:
    file: dict[str, object] = {}
    if arguments.config:
        try:
            content = RealFiles(read_only=True).read(arguments.config)
        except OSError as error:
            raise SettingsError(f"--config {arguments.config}: {error.strerror}") from error
        file = read_file(arguments.config, content)
    flags = {name: getattr(arguments, name.replace("-", "_"), None) for name in _NAMES}
    return merge(_NAMES, file, os.environ, flags) | {"set": arguments.set}


def _settings(merged: dict[str, object]) -> SpuSettings:
    spus = merged.get("spus", 1)
    if str(spus) != "1":
        raise SettingsError(f"--spus {spus}: this version runs one SPU; more come with the Streaming Controller")
    listeners = tuple(
        _listener(f"PUBLIC_{number}" if number else "PUBLIC", text)
        for number, text in enumerate(_publics(merged.get("public", DEFAULT_PUBLIC)))
    )
    metrics: ListenerSettings | None = ListenerSettings("METRICS", METRICS, may_move=True)
    if merged.get("metrics") == "off":
        metrics = None
    elif "metrics" in merged:
        metrics = ListenerSettings("METRICS", parse_address(str(merged["metrics"]), "--metrics"))
    data = str(merged.get("data") or default_data_directory(os.environ))
    return SpuSettings(1, os.path.abspath(data), listeners, metrics, broker=_broker_settings(merged))


def _publics(given: object) -> list[str]:
    """A flag may be repeated, a file may hold a list, and the environment has one line: commas stand between."""
    each = given if isinstance(given, list) else [given]
    return [text.strip() for entry in each for text in str(entry).split(",")]


def _listener(name: str, text: str) -> ListenerSettings:
    address, equals, advertised = text.partition("=")
    return ListenerSettings(
        name, parse_address(address, "--public"), parse_address(advertised, "--public") if equals else None
    )


def _one_of(allowed: Collection[str], merged: dict[str, object], name: str) -> str | None:
    """The flag is checked by its parser; a file and the environment may say anything."""
    value = merged.get(name)
    if value is None:
        return None
    if value not in allowed:
        raise SettingsError(f"--{name} {value}: it is one of {', '.join(sorted(allowed))}")
    return str(value)


def _broker_settings(merged: dict[str, object]) -> dict[str, str]:
    table = merged.get("broker", {})
    if not isinstance(table, dict):
        raise SettingsError("the settings file: [broker] must be a table of Kafka's broker settings")
    broker = {str(name): str(value).lower() if isinstance(value, bool) else str(value) for name, value in table.items()}
    given = merged["set"]
    assert isinstance(given, list)
    for entry in given:
        name, equals, value = str(entry).partition("=")
        if not equals:
            raise SettingsError(f"--set {entry}: it takes NAME=VALUE, such as num.partitions=3")
        broker[name.strip()] = value.strip()
    return broker
