"""Serves the metrics of a run in its driver, with the names that the replicas of a trigger have."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import trio

from tailrace.client.log_client import LATEST, LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import SpuClient
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.server.health import Readiness
from tailrace.server.metric_text import render
from tailrace.server.metrics_server import MetricsServer
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.replica.replica_metrics import ReplicaGauges, ShardGauges, replica_families

from .engine_results import EngineCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LAG_SECONDS_MAX = 3.0
"""How long a scrape waits for the ends of the shards. Without them it has no lag."""


async def serve_metrics(
    config: TriggerConfig,
    counts: EngineCounts,
    address: Address,
    seams: Seams,
    logger: FilteringBoundLogger,
    spus: SpuClient,
) -> None:
    """Serves metrics until it is cancelled. An address that cannot be used is logged, and the run goes on."""
    own_spus = spus.another()
    logs = LogClient(own_spus)
    turn = trio.Lock()

    async def scrape() -> bytes:
        async with turn:
            gauges = ReplicaGauges()
            with trio.move_on_after(LAG_SECONDS_MAX):
                gauges = ReplicaGauges(shards=await shard_gauges(logs, counts, seams.wall_clock.now_ms()))

        def families() -> Iterator["Metric"]:
            return replica_families(config.name, counts.metrics, gauges)

        return render(families)

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        return Readiness(True, "the run owns its shards")

    try:
        listener = await seams.network.listen(address)
    except Exception as error:
        logger.error("metrics_not_served", reason=str(error))
        return
    with closing(own_spus), closing(listener):
        logger.info("metrics_served", address=str(listener.address))
        await MetricsServer(scrape, readiness, logger).serve(listener)


async def shard_gauges(logs: LogClient, counts: EngineCounts, wall_ms: int) -> dict[int, ShardGauges]:
    """Returns the lag of each shard that has handled an event; nothing if brokers cannot be reached."""
    marks = {Partition(*shard): mark for shard, mark in counts.marks.items()}
    try:
        ends = await logs.offsets_at(list(marks), LATEST)
        behind = {each: mark for each, mark in marks.items() if isinstance(end := ends[each], int) and end > mark}
        times = await logs.timestamps(behind)
    except (UnreachableError, RefusedError):
        return {}
    found: dict[int, ShardGauges] = {}
    for each, mark in marks.items():
        end, time = ends[each], times.get(each)
        lag = end - mark if isinstance(end, int) else 0
        found[each.number] = ShardGauges(max(0, lag), max(0.0, (wall_ms - time) / 1000) if time is not None else 0.0)
    return found
