"""`tailrace serve spu`: one SPU of a cluster, which the cluster's Streaming Controller must know by its id.

Prints one line on standard output when it serves: `ready spu=N bootstrap=HOST:PORT[,HOST:PORT] in N ms`.
"""

import argparse
from functools import partial

import trio

from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.broker.spu_storage import StartError
from tailrace.runtime import logs
from tailrace.runtime.network import Address
from tailrace.runtime.process import end_of_input
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SettingsError, SpuSettings

from .given_settings import GivenSettings
from .serving import COMMON_NAMES, Announcement, Stops, add_common_flags, run_server

NAMES = COMMON_NAMES | {"id", "sc", "private", "rack"}
ID_MAX = 2**31 - 1
DEFAULT_PUBLIC = Address("127.0.0.1", 9005)
DEFAULT_PRIVATE = Address("127.0.0.1", 9006)
DEFAULT_METRICS = Address("127.0.0.1", 9008)
PARENTLESS_STOP_SECONDS_MAX = 30


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="N", help="the SPU's id, as it is registered at the Streaming Controller")
    parser.add_argument(
        "--sc",
        metavar="HOST:PORT[,HOST:PORT]",
        help="the private address of the Streaming Controller (its port 9004), and of its standbys",
    )
    add_common_flags(parser, public=str(DEFAULT_PUBLIC), metrics=str(DEFAULT_METRICS))
    parser.add_argument(
        "--private",
        metavar="HOST:PORT[=HOST:PORT]",
        help=f"where other SPUs connect, and what they are told to connect to (default: {DEFAULT_PRIVATE})",
    )
    parser.add_argument("--rack", metavar="R", help="where it stands: to be warned if it is registered elsewhere")
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="stop when standard input ends: for a parent that is not to leave it behind",
    )


def run(arguments: argparse.Namespace) -> int:
    async def serve(settings: SpuSettings, seams: Seams, stops: Stops) -> None:
        await _serve(settings, seams, stops, until_input_ends=arguments.until_input_ends)

    return run_server("serve spu", arguments, NAMES, read_settings, serve, (StartError,))


def read_settings(given: GivenSettings) -> SpuSettings:
    given.required("id", "the SPU's id, as it is registered at the Streaming Controller")
    given.required("sc", "HOST:PORT, the private address of the Streaming Controller")
    spu_id = given.whole_number("id", 0, ID_MAX)
    assert spu_id is not None
    if given.text("rack") == "":
        raise SettingsError("--rack: it is empty; leave it out for an SPU in no rack")
    return SpuSettings(
        spu_id,
        given.data_directory(),
        given.listeners() if given.has("public") else (ListenerSettings("PUBLIC", DEFAULT_PUBLIC),),
        given.metrics_listener(DEFAULT_METRICS),
        given.text("rack"),
        given.broker_settings(),
        controllers=given.addresses("sc"),
        private=given.listener("private", ListenerSettings("PRIVATE", DEFAULT_PRIVATE)),
    )


async def _serve(settings: SpuSettings, seams: Seams, stops: Stops, *, until_input_ends: bool) -> None:
    stops.server = spu = SpuServer(settings, seams, logs.get_logger(), traces=logs.shows_debug())
    async with trio.open_nursery() as nursery:
        if until_input_ends:
            nursery.start_soon(_stop_with_parent, spu, nursery.cancel_scope)
        await spu.run(Announcement(partial(_serving, settings)))
        nursery.cancel_scope.cancel()


def _serving(settings: SpuSettings, spu: Spu) -> str:
    return f"spu={settings.id} bootstrap={','.join(map(str, spu.addresses))}"


async def _stop_with_parent(spu: SpuServer, scope: trio.CancelScope) -> None:
    """Cleanly, but not forever: nobody is left who would lose patience."""
    await end_of_input()
    spu.stop()
    await trio.sleep(PARENTLESS_STOP_SECONDS_MAX)
    scope.cancel()
