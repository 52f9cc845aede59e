"""Runs one replica of a trigger in this process: its worker pool, its metrics, and its stop with the parent process."""

import os
from contextlib import closing
from functools import partial

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.client.sc_client import ScClient
from tailrace.cluster.stream_state.replica_report import ReplicaState
from tailrace.runtime.logs import FilteringBoundLogger, get_logger
from tailrace.runtime.network import Address
from tailrace.runtime.process import ServerStop, print_ready, stop_with_parent
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import parse_address
from tailrace.server.health import Readiness
from tailrace.server.metric_text import render
from tailrace.server.metrics_server import MetricsServer
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.deployed_function import KIND, DeployedFunction, read_deployed
from tailrace.trigger.pool.worker_pool import WorkerPool
from tailrace.trigger.replica.replica_metrics import replica_families
from tailrace.trigger.replica.replica_setup import ReplicaServers, check_topic, replica_of
from tailrace.trigger.replica.trigger_replica import Replica, ReplicaName

_POOL_STOP_SECONDS_MAX = 2.0
"""How long idle workers may take to end after the replica has left."""


class ReplicaSettings(Struct, frozen=True):
    """Which replica to run, and how."""

    servers: ReplicaServers
    metrics: Address | None
    member_id: str
    log_level: str
    log_json: bool
    until_input_ends: bool
    trigger: DeployedFunction | None
    """The trigger that the command line describes; None for a deployed one."""
    deployed: str
    """The name of the deployed trigger."""


def brokers_of(config: TriggerConfig) -> list[Address]:
    """Returns the brokers that the configuration names. Raises SettingsError."""
    return [parse_address(each, "--bootstrap", port_min=1) for each in config.brokers]


async def serve_replica(settings: ReplicaSettings, seams: Seams, stop: ServerStop) -> None:
    """Runs the replica until it is stopped.

    Raises RefusedError, UnreachableError, TriggerConfigError, WorkerPoolError and CannotListenError.
    """
    async with trio.open_nursery() as nursery:
        if settings.until_input_ends:
            nursery.start_soon(stop_with_parent, stop, nursery.cancel_scope)
        trigger = settings.trigger
        if trigger is None:
            trigger = await _deployed(settings, seams)
            settings = replace(settings, servers=replace(settings.servers, brokers=brokers_of(trigger.config)))
        logger = get_logger().bind(trigger=trigger.config.name, replica=settings.member_id)
        shards = await check_topic(settings.servers, seams.network, trigger.config, logger)
        await _run_replica(settings, trigger, shards, seams, stop, logger)
        nursery.cancel_scope.cancel()


async def _deployed(settings: ReplicaSettings, seams: Seams) -> DeployedFunction:
    """Asks the SC for a deployed trigger. Raises RefusedError, UnreachableError and TriggerConfigError."""
    with closing(ScClient(seams.network, settings.servers.sc)) as sc:
        (found,) = await sc.list_objects(KIND, [settings.deployed])
    return read_deployed(found)


async def _run_replica(
    settings: ReplicaSettings,
    trigger: DeployedFunction,
    shards: int,
    seams: Seams,
    stop: ServerStop,
    logger: FilteringBoundLogger,
) -> None:
    config = trigger.config
    pool = WorkerPool(
        trigger.source,
        config,
        config.max_workers,
        logger,
        seams.chance,
        log_level=settings.log_level,
        log_json=settings.log_json,
    )
    name = ReplicaName(config.name, settings.member_id, os.uname().nodename, os.getpid(), trigger.revision)
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        async with replica_of(name, config, pool, settings.servers, seams, logger) as replica:
            if settings.metrics is not None:
                await nursery.start(_serve_metrics, replica, settings.metrics, seams, logger)
            stop.server = replica
            if stop.is_asked:
                replica.stop()
            alone = "" if settings.servers.sc else ", alone because no SC was named,"
            print_ready(
                f"{settings.member_id} of trigger {config.name} handles {config.topic} ({shards} shards) in the group "
                f"{config.group}{alone}"
            )
            await replica.run()
        await pool.stop(_POOL_STOP_SECONDS_MAX)
        nursery.cancel_scope.cancel()


async def _serve_metrics(
    replica: Replica,
    address: Address,
    seams: Seams,
    logger: FilteringBoundLogger,
    task_status: trio.TaskStatus[None],
) -> None:
    async def scrape() -> bytes:
        await trio.lowlevel.checkpoint()
        return render(partial(replica_families, replica.name.trigger, replica.metrics, replica.gauges()))

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        state = replica.state
        return Readiness(state is not ReplicaState.STOPPING, state.value)

    listener = await seams.network.listen(address)
    with closing(listener):
        logger.info("metrics_served", address=str(listener.address))
        task_status.started()
        await MetricsServer(scrape, readiness, logger).serve(listener)
