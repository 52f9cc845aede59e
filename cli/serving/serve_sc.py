"""`tailrace serve sc`: runs the Streaming Controller (SC) of a cluster.

The command prints one line on standard output when the SC is ready: `ready sc public=HOST:PORT[,HOST:PORT]
private=HOST:PORT in N ms`. With etcd the SC is ready when it is the active one; until then it is a standby SC.
"""

import argparse
import math

from tailrace.controller.key_value.interface import StoreCorrupt
from tailrace.controller.key_value.opening import SQLITE, check_store_name, is_etcd
from tailrace.controller.streaming_controller import ScAddresses, StartError, StreamingController
from tailrace.runtime import logs
from tailrace.runtime.network import Address
from tailrace.runtime.process import ServerStop
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import (
    RECONCILIATION_SECONDS,
    ListenerSettings,
    ScSettings,
    SettingsError,
)

from .given_settings import GivenSettings
from .sc_store import opened_store
from .security_check import check_security
from .serving import COMMON_NAMES, Announcement, add_common_flags, run_server

NAMES = COMMON_NAMES | {"private", "store", "store-config", "reconciliation", "replace-after"}
DEFAULT_PUBLIC = Address("127.0.0.1", 9003)
DEFAULT_PRIVATE = Address("127.0.0.1", 9004)
DEFAULT_METRICS = Address("127.0.0.1", 9002)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_common_flags(parser, public=str(DEFAULT_PUBLIC), metrics=str(DEFAULT_METRICS))
    parser.add_argument(
        "--private", metavar="HOST:PORT", help=f"Address to listen on for SPUs (default: {DEFAULT_PRIVATE})."
    )
    parser.add_argument(
        "--store",
        metavar="STORE",
        help="Store of the cluster's objects: sqlite (default), memory, etcd://HOST:PORT[,HOST:PORT], etcds://… with "
        "TLS, kubernetes (in a pod) or kubernetes:KUBECONFIG.",
    )
    parser.add_argument(
        "--store-config",
        metavar="FILE",
        help="File with what etcd demands: username, password, ssl.truststore.location, ssl.keystore.location, "
        "ssl.key.password.",
    )
    parser.add_argument(
        "--reconciliation",
        metavar="SECONDS",
        help=f"Interval at which the SC checks all objects and sends SPUs their specs (default: "
        f"{RECONCILIATION_SECONDS:g}).",
    )
    parser.add_argument(
        "--replace-after",
        metavar="SECONDS",
        help="How long an SPU or disk may be offline before other SPUs get its replicas (default: forever).",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the SC and returns the exit status."""
    return run_server("serve sc", arguments, NAMES, read_settings, _serve, (StartError, StoreCorrupt))


def read_settings(given: GivenSettings) -> ScSettings:
    """Reads the settings of the SC."""
    store = given.text("store", SQLITE)
    check_store_name(store, "--store")
    store_config = given.text("store-config") or None
    if store_config is not None and not is_etcd(store):
        raise SettingsError(f"--store-config {store_config} has no effect with the store {store}; it is for etcd")
    settings = ScSettings(
        given.data_directory(),
        given.listeners(ListenerSettings("PUBLIC", DEFAULT_PUBLIC)),
        given.listener("private", ListenerSettings("PRIVATE", DEFAULT_PRIVATE)),
        store,
        given.metrics_listener(DEFAULT_METRICS),
        given.seconds("reconciliation", RECONCILIATION_SECONDS),
        given.broker_settings(),
        given.seconds("replace-after", math.inf),
        store_config,
    )
    check_security(settings.broker, (*settings.listeners, settings.private, settings.metrics))
    return settings


async def _serve(settings: ScSettings, seams: Seams, stop: ServerStop) -> None:
    logger = logs.get_logger()
    store_opened = opened_store(settings.store, settings.data_directory, seams, logger, settings.store_config)
    async with store_opened as store:
        stop.server = controller = StreamingController(settings, seams, store, logger)
        await controller.run(Announcement(_serving))


def _serving(addresses: ScAddresses) -> str:
    return f"sc public={','.join(map(str, addresses.public))} private={addresses.private}"
