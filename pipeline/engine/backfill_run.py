"""Runs the function of a trigger over an archive: `backfill(spark, FILE, archive=…)`.

Each partition is one task, which handles its chunks in their order. A run that is killed continues with the chunks that
are not done, or with exactly-once into topics where its last transaction ends.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.client.client_network import client_seams
from tailrace.pipeline.archive.manifest.archive_manifest import PartitionKey
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.job_progress import Report
from tailrace.pipeline.jobs.task_running import run_tasks
from tailrace.runtime import logs
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.error_groups import first_error
from tailrace.runtime.network import Address
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource, with_snapshot
from tailrace.trigger.replica.replica_setup import ReplicaServers

from .backfill_planning import (
    BackfillError,
    BackfillId,
    BackfillTask,
    Window,
    chunks_to_handle,
    ranges_left,
)
from .backfill_positions import check_partitions, group_of, positions_in
from .backfill_progress import ChunkProgress, begin_progress
from .backfill_tasks import backfill_partition
from .engine_results import EngineCounts, EngineResult, RangeResult, engine_result
from .engine_run import check_session
from .engine_settings import Way, engine_config, without_effect
from .engine_setup import NO_SETTINGS, given_function, given_servers
from .engine_tasks import REQUIRED
from .output_archive import OutputArchive, open_output_archive
from .range_work import RangeWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMBER_ID = "backfill"
_JOB = "backfill"


class BackfillSettings(Struct, frozen=True, kw_only=True):
    """What to handle, and where what comes of it goes."""

    config: TriggerConfig
    source: FunctionSource
    archive: str
    window: Window = Window()
    servers: ReplicaServers = ReplicaServers()
    """The brokers that get output and dead letters, without an output archive."""
    output_archive: str | None = None
    progress: str | None = None
    log_level: str = "info"
    log_json: bool = True


def backfill(
    spark: "SparkSession",
    function: str,
    *,
    archive: str,
    begin_ms: int | None = None,
    end_ms: int | None = None,
    output_archive: str | None = None,
    progress: str | None = None,
    bootstrap: str | None = None,
    sc: str | None = None,
    config: str | None = None,
    settings: Mapping[str, object] = NO_SETTINGS,
    report: Report | None = None,
) -> EngineResult:
    """Calls the function in `FILE` or `FILE:NAME` for the records of its topic in an archive, in their order.

    `begin_ms` and `end_ms` limit the times of the records. What the function emits goes to topics of the brokers, at
    least once, and `progress` is a directory that says what is done; or with the guarantee `exactly-once` without such
    a directory; or it goes into an `output_archive`, exactly once. All executors must reach these directories. Raises
    the same errors as `run_trigger`, BackfillError and ManifestError.
    """
    given = given_function(function, config, settings)
    servers = ReplicaServers() if output_archive else given_servers(bootstrap, sc, given.config)
    wanted = BackfillSettings(
        config=given.config,
        source=given.source,
        archive=archive,
        window=Window(begin_ms, end_ms),
        servers=servers,
        output_archive=output_archive,
        progress=progress,
    )
    return run_backfill(spark, wanted, plan_backfill(wanted), report)


def run_backfill(
    spark: "SparkSession", settings: BackfillSettings, plan: "BackfillPlan", report: Report | None = None
) -> EngineResult:
    """Does what is left to do. Raises JobError."""
    check_session(spark)
    results = run_tasks(spark, plan.tasks, backfill_partition, name=_JOB, report=report, requires=REQUIRED)
    return backfill_result(settings, plan, results)


def backfill_result(
    settings: BackfillSettings, plan: "BackfillPlan", results: Iterable[Iterable[RangeResult]]
) -> EngineResult:
    """Makes the result of a run from what its tasks report."""
    counts = EngineCounts()
    for each in results:
        counts.add(each)
    chunks = sum(len(task.chunks) for task in plan.tasks)
    return engine_result(
        _JOB,
        counts,
        f"all {chunks + plan.done_chunks} chunks of {settings.config.topic} are handled",
        {"chunks": chunks, "chunks done before": plan.done_chunks},
    )


class BackfillPlan(Struct, frozen=True):
    """What is left to do."""

    tasks: list[BackfillTask]
    done_chunks: int
    """How many chunks earlier runs have done."""


def plan_backfill(settings: BackfillSettings) -> BackfillPlan:
    """Looks what is left to do, and makes the directories for what comes of it.

    Raises BackfillError, EngineSettingsError, JobError, ManifestError, RefusedError and UnreachableError.
    """
    check_backfill(settings)
    settings = _with_absolute_paths(settings)
    config = engine_config(settings.config, Way.BACKFILL)
    folder = ArchiveFolder(settings.archive)
    chunks = chunks_to_handle(folder.load().manifest, config.topic, settings.window)
    backfill_id = BackfillId(folder.archive.id, config.topic, config.group, settings.window)
    logger = logs.get_logger().bind(trigger=config.name, replica=MEMBER_ID)
    if ignored := without_effect(settings.config, Way.BACKFILL):
        logger.warning("settings_without_effect_on_spark", settings=", ".join(ignored))
    target = _Target()
    if settings.output_archive is not None:
        open_output_archive(settings.output_archive, RandomChance())
    else:
        target = _ask_target(settings, config, backfill_id, chunks)
        if settings.progress is not None:
            begin_progress(settings.progress, backfill_id)
    work = RangeWork(
        config=config,
        source=with_snapshot(settings.source),
        brokers=tuple((each.host, each.port) for each in target.brokers),
        member_id=MEMBER_ID,
        log_level=settings.log_level,
        log_json=settings.log_json,
    )
    every = [
        BackfillTask(
            work=work,
            archive=folder.directory,
            id=backfill_id,
            topic_id=topic_id,
            partition=partition,
            chunks=of_partition,
            output_archive=settings.output_archive,
            progress=settings.progress,
        )
        for (topic_id, partition), of_partition in sorted(chunks.items())
    ]
    tasks = [task for each in every if (task := _rest_of(each, target)).chunks]
    done = sum(len(each.chunks) for each in every) - sum(len(each.chunks) for each in tasks)
    return BackfillPlan(tasks, done)


def check_backfill(settings: BackfillSettings) -> None:
    """Refuses what cannot be meant. Raises BackfillError."""
    window = settings.window
    if window.begin_ms is not None and window.end_ms is not None and window.begin_ms >= window.end_ms:
        raise BackfillError("the window ends before it begins")
    is_once = settings.config.is_exactly_once and settings.output_archive is None
    if settings.output_archive is None and settings.progress is None and not is_once:
        raise BackfillError(
            "a backfill into topics needs a directory that says which chunks are done: give --progress DIR, or "
            "--output-archive DIR to store what the function emits in an archive, or --guarantee exactly-once"
        )
    if is_once and settings.progress is not None:
        raise BackfillError("with exactly-once the cluster keeps how far the backfill is: give no --progress")
    if settings.output_archive is not None and settings.progress is not None:
        raise BackfillError("the progress of a backfill into an archive is in that archive: give no --progress")
    if settings.output_archive is not None and _same(settings.output_archive, settings.archive):
        raise BackfillError("the output archive must be another directory than the archive that is read")


def _with_absolute_paths(settings: BackfillSettings) -> BackfillSettings:
    """Makes all paths absolute, because executors may have another working directory."""
    return replace(
        settings,
        archive=os.path.abspath(settings.archive),
        output_archive=None if settings.output_archive is None else os.path.abspath(settings.output_archive),
        progress=None if settings.progress is None else os.path.abspath(settings.progress),
    )


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _rest_of(task: BackfillTask, target: "_Target") -> BackfillTask:
    """Returns the task with the chunks that are not done. Raises JobError and ManifestError."""
    seams = client_seams()
    if task.output_archive is not None:
        position = OutputArchive(task, seams.chance, seams.wall_clock).position()
    elif task.progress is not None:
        position = ChunkProgress(task.progress, task.topic_id, task.partition).position()
    else:
        position = target.positions.get((task.topic_id, task.partition))
    return replace(task, chunks=tuple(chunk for chunk, _ in ranges_left(task.chunks, position)))


class _Target(Struct, frozen=True):
    """What the cluster that gets the output says."""

    brokers: tuple[Address, ...] = ()
    positions: Mapping[PartitionKey, int] = {}
    """With exactly-once: the first offset of each partition that is not done, if something is done."""


def _ask_target(
    settings: BackfillSettings, config: TriggerConfig, backfill_id: BackfillId, chunks: Collection[PartitionKey]
) -> _Target:
    """Asks for the addresses of all brokers, and with exactly-once for the positions of partitions.

    Raises BackfillError, RefusedError and UnreachableError.
    """
    network = client_seams().network

    async def ask() -> _Target:
        with closing(settings.servers.spu_client(network, config)) as spus:
            found = await spus.metadata()
            brokers = tuple(Address(each.host, each.port) for each in found.brokers)
            if not config.is_exactly_once:
                return _Target(brokers)
            await check_partitions(spus, config.topic, {number for _, number in chunks})
            positions: dict[PartitionKey, int] = {}
            for topic_id in sorted({each for each, _ in chunks}):
                numbers = [number for each, number in chunks if each == topic_id]
                of_topic = await positions_in(spus, group_of(backfill_id, topic_id), config.topic, numbers)
                positions |= {(topic_id, number): offset for number, offset in of_topic.items()}
            return _Target(brokers, positions)

    try:
        return trio.run(ask)
    except BaseExceptionGroup as group:
        raise first_error(group) from None
