"""`tailrace serve spu`: runs one SPU of a cluster, whose id must be registered at the Streaming Controller.

The command prints one line on standard output when the SPU is ready: `ready spu=N bootstrap=HOST:PORT[,HOST:PORT] in N
ms`.
"""

import argparse
from functools import partial

import trio

from tailrace.broker.spu import Spu
from tailrace.broker.spu_server import SpuServer
from tailrace.broker.spu_storage import StartError
from tailrace.runtime import logs
from tailrace.runtime.network import Address
from tailrace.runtime.process import ServerStop, stop_with_parent
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import ListenerSettings, SettingsError, SpuSettings

from .given_settings import GivenSettings
from .security_check import check_security
from .serving import (
    COMMON_NAMES,
    Announcement,
    add_common_flags,
    add_published,
    add_until_input_ends,
    run_server,
)

NAMES = COMMON_NAMES | {"id", "sc", "private", "published", "rack"}
ID_MAX = 2**31 - 1
DEFAULT_PUBLIC = Address("127.0.0.1", 9005)
DEFAULT_PRIVATE = Address("127.0.0.1", 9006)
DEFAULT_METRICS = Address("127.0.0.1", 9008)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--id", metavar="N", help="Id of the SPU, as registered at the Streaming Controller.")
    parser.add_argument(
        "--sc",
        metavar="HOST:PORT[,HOST:PORT]",
        help="Private addresses of the Streaming Controller (port 9004) and its standbys.",
    )
    add_common_flags(parser, public=str(DEFAULT_PUBLIC), metrics=str(DEFAULT_METRICS))
    parser.add_argument(
        "--private",
        metavar="HOST:PORT[=HOST:PORT]",
        help=f"Address to listen on for other SPUs, and the address to advertise (default: {DEFAULT_PRIVATE}).",
    )
    add_published(parser)
    parser.add_argument("--rack", metavar="RACK", help="Rack of the SPU; warns if another one is registered.")
    add_until_input_ends(parser, "the SPU")


def run(arguments: argparse.Namespace) -> int:
    """Runs the SPU and returns the exit status."""

    async def serve(settings: SpuSettings, seams: Seams, stop: ServerStop) -> None:
        await _serve(settings, seams, stop, until_input_ends=arguments.until_input_ends)

    return run_server("serve spu", arguments, NAMES, read_settings, serve, (StartError,))


def read_settings(given: GivenSettings) -> SpuSettings:
    """Reads the settings of the SPU."""
    given.required("id", "the SPU's id, as it is registered at the Streaming Controller")
    given.required("sc", "HOST:PORT, the private address of the Streaming Controller")
    spu_id = given.whole_number("id", 0, ID_MAX)
    assert spu_id is not None
    if given.text("rack") == "":
        raise SettingsError("--rack: the name is empty; leave the option out if the SPU has no rack")
    listeners = given.listeners(ListenerSettings("PUBLIC", DEFAULT_PUBLIC))
    settings = SpuSettings(
        spu_id,
        given.data_directory(),
        listeners,
        given.metrics_listener(DEFAULT_METRICS),
        given.text("rack"),
        given.broker_settings(),
        controllers=given.addresses("sc"),
        private=given.listener("private", ListenerSettings("PRIVATE", DEFAULT_PRIVATE)),
        published=given.published(listeners),
    )
    check_security(settings.broker, (*listeners, settings.private, settings.metrics))
    return settings


async def _serve(settings: SpuSettings, seams: Seams, stop: ServerStop, *, until_input_ends: bool) -> None:
    stop.server = spu = SpuServer(settings, seams, logs.get_logger(), traces=logs.shows_debug())
    async with trio.open_nursery() as nursery:
        if until_input_ends:
            nursery.start_soon(stop_with_parent, spu, nursery.cancel_scope)
        await spu.run(Announcement(partial(_serving, settings)))
        nursery.cancel_scope.cancel()


def _serving(settings: SpuSettings, spu: Spu) -> str:
    return f"spu={settings.id} bootstrap={','.join(map(str, spu.addresses))}"
