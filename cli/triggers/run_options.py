"""The options of `tailrace trigger run` that a replica and a run on Spark read alike, and the choice between them."""

import argparse
from collections.abc import Mapping

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.options.server_choice import SC_DEFAULT, addresses_of
from tailrace.cluster.stream_state.stream_state import MEMBER_ID_CHARACTERS_MAX
from tailrace.pipeline.jobs.job_arguments import OUTPUTS, add_master
from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.replica.replica_setup import ReplicaServers

from .replica_process import brokers_of

REPLICA, SPARK = "replica", "spark"
_METRICS_OFF = "off"
_OF_SPARK = ("checkpoint", "master", "packages", "available_now", "output")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Adds the choice of the engine, and the options of Spark."""
    parser.add_argument(
        "--engine",
        choices=(REPLICA, SPARK),
        default=REPLICA,
        help="What runs the function: a replica in this process (default), or a streaming query on Spark.",
    )
    group = parser.add_argument_group("options of --engine spark")
    group.add_argument("--checkpoint", metavar="DIRECTORY", help="Directory in which Spark keeps its positions.")
    group.add_argument("--available-now", action="store_true", help="Handle the records that are there now, and end.")
    group.add_argument("--output", "-o", choices=OUTPUTS, help="Format of the result at the end (default: table).")
    add_master(group)
    group.add_argument(
        "--packages",
        metavar="COORDINATES",
        help="Packages of the Kafka connector, or none if the session has it (default: those for this PySpark).",
    )


def check_without_engine(arguments: argparse.Namespace) -> None:
    """Refuses options of Spark for a replica. Raises UsageError."""
    for name in _OF_SPARK:
        if getattr(arguments, name):
            raise UsageError(f"--{name.replace('_', '-')} has no effect without --engine spark")


def member_id_of(given: str | None, default: str) -> str:
    """Returns the name in the group. Raises UsageError."""
    member_id = default if given is None else given
    if not 0 < len(member_id) <= MEMBER_ID_CHARACTERS_MAX:
        raise UsageError(f"--replica: a replica needs a name of 1 to {MEMBER_ID_CHARACTERS_MAX} characters")
    return member_id


def metrics_address(given: str | None) -> Address | None:
    """Returns the address for metrics, or None if they are off. Raises SettingsError."""
    return None if given in (None, _METRICS_OFF) else parse_address(given or "", "--metrics")


def servers_of(sc: str | None, config: TriggerConfig | None, environment: Mapping[str, str]) -> ReplicaServers:
    """Chooses the servers: the SC that is named, or else brokers that are named, or else the SC of `tailrace up`."""
    brokers = [] if config is None else brokers_of(config)
    origin = "--sc" if sc is not None else SC_VARIABLE
    sc = sc or environment.get(SC_VARIABLE) or None
    if sc is None and config is not None:
        named = environment.get(BOOTSTRAP_VARIABLE)
        if not brokers and named:
            brokers = addresses_of(named, BOOTSTRAP_VARIABLE)
        if brokers:
            if config.replicas > 1:
                raise UsageError(
                    f"{config.replicas} replicas need a Streaming Controller, which says which replica handles which "
                    "shard: name it with --sc, or set replicas to 1"
                )
            return ReplicaServers(brokers=brokers)
    return ReplicaServers(addresses_of(sc or SC_DEFAULT, origin), brokers)
