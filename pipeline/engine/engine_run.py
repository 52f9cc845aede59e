"""Runs the function of a trigger as a streaming query: `run_trigger(spark, FILE, checkpoint=…)`.

Spark's Kafka source plans micro-batches and keeps its positions in the checkpoint. Its tasks handle the records as a
replica does, and commit marks to the group of the trigger. If a micro-batch runs again, after a kill for example, each
task begins at its mark, so that what is repeated is what one shard handles in a commit interval. With exactly-once,
output and marks are in transactions, so that output is never repeated.
"""

import os
import threading  # noqa: TID251 - Spark calls the handler of a micro-batch in a thread of its own
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.client.client_network import client_seams, client_security
from tailrace.client.client_security import ClientSecurity
from tailrace.pipeline.jobs.job_errors import JobError, reason_of_job
from tailrace.pipeline.jobs.job_progress import Report
from tailrace.pipeline.jobs.shipped_code import ship_once
from tailrace.pipeline.jobs.spark_session import is_connect
from tailrace.runtime import logs
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Address
from tailrace.runtime.seams import Seams
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.functions.function_source import FunctionSource, with_snapshot
from tailrace.trigger.replica.replica_setup import ReplicaServers
from tailrace.trigger.work import Shard

from .batch_ends import ends_of_batch, gaps_to_mark, mark_gaps
from .engine_metrics import serve_metrics
from .engine_results import LOSSES_MAX, EngineCounts, EngineResult, RangeResult, engine_result
from .engine_settings import Way, engine_config, without_effect
from .engine_setup import NO_SETTINGS, given_function, given_servers
from .engine_tasks import handle_rows
from .kafka_connector import source_options
from .range_work import RangeWork
from .shard_ownership import Owned, ShardOwnership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEMBER_ID = "spark"
"""The name of the driver in the group of the trigger."""
LOOK_SECONDS = 0.2
"""How often the driver looks whether it should stop."""
_COLUMNS = ("key", "value", "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "headers")
_JOB = "trigger"


class EngineRunSettings(Struct, frozen=True, kw_only=True):
    """What to run, and where."""

    config: TriggerConfig
    source: FunctionSource
    servers: ReplicaServers
    checkpoint: str
    available_now: bool = False
    """Whether to handle what is there now, and end."""
    member_id: str = MEMBER_ID
    metrics: Address | None = None
    log_level: str = "info"
    log_json: bool = True


class _StopAskedError(Exception):
    """A micro-batch that does not begin, because the run stops."""


def run_trigger(
    spark: "SparkSession",
    function: str,
    *,
    checkpoint: str,
    bootstrap: str | None = None,
    sc: str | None = None,
    config: str | None = None,
    settings: Mapping[str, object] = NO_SETTINGS,
    available_now: bool = False,
    member_id: str = MEMBER_ID,
    report: Report | None = None,
) -> EngineResult:
    """Handles the records of a trigger's topic with the function in `FILE` or `FILE:NAME` until the query ends.

    `bootstrap` and `sc` are addresses `HOST:PORT,HOST:PORT`; without an `sc` any Kafka brokers will do. `config` is a
    file in Nuclio's shape, and `settings` override it with the names of `@trigger`. With `available_now` the query
    ends when everything is handled that was there. Raises TriggerConfigError, FunctionLoadError, EngineSettingsError
    and SettingsError for arguments that cannot work, and OwnershipError, RefusedError, UnreachableError and JobError.
    """
    given = given_function(function, config, settings)
    run = EngineRun(
        EngineRunSettings(
            config=given.config,
            source=given.source,
            servers=given_servers(bootstrap, sc, given.config),
            checkpoint=checkpoint,
            available_now=available_now,
            member_id=member_id,
        )
    )
    with closing(run):
        return run.run(spark, report)


def check_session(spark: "SparkSession") -> None:
    """Raises JobError for a session in which no trigger can run."""
    if is_connect(spark):
        raise JobError(
            "a trigger runs its tasks in a classic session of Spark, and this one is a client of Spark Connect: "
            "give the address of a master, such as spark://HOST:7077 or local[*]"
        )
    if spark.conf.get("spark.speculation", "false") == "true":
        raise JobError("spark.speculation would handle events twice at the same time: set it to false")


class EngineRun:
    """One run. `run` blocks its thread; `stop` may be called from any other. `close` comes last."""

    def __init__(self, settings: EngineRunSettings, started: Callable[[int], None] = lambda shards: None) -> None:
        """Prepares a run. `started` is called with the number of shards when the query runs.

        Raises EngineSettingsError and FunctionLoadError.
        """
        self.counts = EngineCounts()
        self._given = settings.config
        self._settings = settings
        self._source = with_snapshot(settings.source)
        self._config = engine_config(settings.config, Way.STREAM)
        self._started = started
        self._stop_asked = threading.Event()
        self._turn = threading.Lock()
        """Held while a micro-batch is handled."""
        self._failure = ""
        """Why the run cannot go on, in one sentence."""
        self._batches = 0
        self._is_said = False
        """Whether it was logged that marks do not pass offsets without records."""
        self._ownership: ShardOwnership | None = None
        self._owned: Owned | None = None

    def stop(self) -> None:
        """Lets the running micro-batch end, at most for `stop_timeout`, and ends the run."""
        self._stop_asked.set()
        if self._ownership is not None:
            self._ownership.give_up_waiting()

    def own(self) -> None:
        """Joins the group, and returns when the driver owns all shards.

        Raises OwnershipError, RefusedError and UnreachableError.
        """
        logger = logs.get_logger().bind(trigger=self._config.name, replica=self._settings.member_id)
        seams = client_seams()
        ownership = self._ownership = ShardOwnership(
            self._config, self._settings.servers, self._settings.member_id, seams, logger, self._beside(seams, logger)
        )
        ownership.start()
        if self._stop_asked.is_set():
            ownership.give_up_waiting()
        self._owned = ownership.wait()
        if ignored := without_effect(self._given, Way.STREAM):
            logger.warning("settings_without_effect_on_spark", settings=", ".join(ignored))

    def run(self, spark: "SparkSession", report: Report | None = None) -> EngineResult:
        """Runs until the query ends, or until `stop`. Raises JobError, and what `own` raises."""
        check_session(spark)
        ship_once(spark)
        if self._owned is None:
            self.own()
        assert self._owned is not None, "the shards are owned"
        self._run_query(spark, self._owned, report)
        return engine_result(_JOB, self.counts, self._verdict(), {"micro-batches": self._batches}, self._failure)

    def close(self) -> None:
        """Releases all shards and leaves the group."""
        if self._ownership is not None:
            self._ownership.stop()

    def _beside(self, seams: Seams, logger: FilteringBoundLogger) -> Any:
        address = self._settings.metrics
        return None if address is None else partial(serve_metrics, self._config, self.counts, address, seams, logger)

    def _verdict(self) -> str:
        what = f"the records of {self._config.topic} that were there"
        return f"{what} are handled" if self._settings.available_now else "the run was stopped"

    # The query

    def _run_query(self, spark: "SparkSession", owned: Owned, report: Report | None) -> None:
        work = RangeWork(
            config=self._config,
            source=self._source,
            brokers=tuple((each.host, each.port) for each in owned.brokers),
            member_id=self._settings.member_id,
            log_level=self._settings.log_level,
            log_json=self._settings.log_json,
        )
        security = client_security() or ClientSecurity()
        options = source_options(
            self._given, owned.brokers, owned.positions, security, logs_in=owned.asks_for_credentials
        )
        try:
            frame = spark.readStream.format("kafka").options(**options).load().selectExpr(*_COLUMNS)
            writer = frame.writeStream.foreachBatch(partial(self._handle, work)).queryName(
                f"trigger {self._config.name}"
            )
            writer = writer.option("checkpointLocation", os.path.abspath(self._settings.checkpoint))
            query = writer.trigger(**self._pace()).start()
        except Exception as error:
            raise JobError(_reason_of_start(error)) from error
        self._started(len(owned.positions))
        total = sum(max(0, end - owned.positions[shard]) for shard, end in owned.ends.items())
        self._wait(query, report, total)

    def _pace(self) -> Mapping[str, Any]:
        if self._settings.available_now:
            return {"availableNow": True}
        return {"processingTime": f"{round(self._given.polling_interval * 1000)} milliseconds"}

    def _wait(self, query: Any, report: Report | None, total: int) -> None:
        assert self._ownership is not None, "the query runs while the shards are owned"
        while True:
            try:
                has_ended = query.awaitTermination(LOOK_SECONDS)
            except Exception as error:
                if not self._stop_asked.is_set() and not self.counts.problems:
                    self._failure = reason_of_job(error)
                return
            if has_ended:
                return
            if report is not None and total:
                report(min(total, self.counts.metrics.events), total)
            if self._ownership.problem:
                self._failure = self._ownership.problem
                query.stop()
                return
            if self._stop_asked.is_set():
                if self._turn.acquire(timeout=self._config.stop_timeout):
                    self._turn.release()
                query.stop()
                return

    def _handle(self, work: RangeWork, frame: "DataFrame", number: int) -> None:
        """Handles a micro-batch. Spark calls this, and the batch counts as done when it returns."""
        with self._turn:
            if self._stop_asked.is_set():
                raise _StopAskedError
            assert self._ownership is not None, "the query runs while the shards are owned"
            work = replace(work, epochs=self._ownership.epochs, ends=self._ends(number))
            results = handle_until_committed(partial(self._collect, work, frame), self.counts, self._pause)
            self._mark_gaps(work, results)
            self._batches += 1

    def _collect(self, work: RangeWork, frame: "DataFrame") -> list[RangeResult]:
        encoded = frame.rdd.mapPartitions(partial(handle_rows, work)).collect()
        return [msgspec.msgpack.decode(each, type=RangeResult) for each in encoded]

    def _pause(self, seconds: float) -> None:
        assert self._ownership is not None, "the query runs while the shards are owned"
        if self._stop_asked.wait(seconds):
            raise _StopAskedError
        if self._ownership.problem:
            raise JobError(self._ownership.problem)

    def _ends(self, number: int) -> Mapping[int, int]:
        """Returns where a micro-batch ends in each shard; nothing if the checkpoint cannot be read here."""
        try:
            return ends_of_batch(os.path.abspath(self._settings.checkpoint), number, self._config.topic)
        except JobError as error:
            self._say_not_marked(str(error))
            return {}

    def _mark_gaps(self, work: RangeWork, results: Iterable[RangeResult]) -> None:
        """Marks the shards in which the micro-batch has no record, before it counts as done."""
        assert self._owned is not None, "the shards are owned"
        marks = {**self._owned.positions, **{shard.number: mark for shard, mark in self.counts.marks.items()}}
        gaps = gaps_to_mark(work.ends, marks, [each.number for each in results])
        if not gaps:
            return
        if problem := trio.run(mark_gaps, work, gaps, client_seams()):
            self._say_not_marked(problem)
        else:
            self.counts.marks.update({Shard(self._config.topic, each): end for each, end in gaps.items()})

    def _say_not_marked(self, problem: str) -> None:
        """Logs once that the lag of the group stays above 0, although every record is handled."""
        if not self._is_said:
            self._is_said = True
            logger = logs.get_logger().bind(trigger=self._config.name, replica=self._settings.member_id)
            logger.warning("gaps_not_marked", reason=problem)


def handle_until_committed(
    collect: Callable[[], Sequence[RangeResult]], counts: EngineCounts, pause: Callable[[float], None]
) -> Sequence[RangeResult]:
    """Has a micro-batch handled, and again from the marks on if tasks have lost their transactions.

    `collect` handles it once. Raises JobError for a shard with a problem, and if no mark moves any more.
    """
    losses, reached = 0, -1
    while True:
        results = collect()
        counts.add(results)
        if problem := next((f"shard {each.shard}: {each.problem}" for each in results if each.problem), None):
            raise JobError(problem)
        lost = next((f"shard {each.shard}: {each.lost}" for each in results if each.lost), None)
        if lost is None:
            return results
        marked = sum(each.mark for each in results)
        losses = 1 if marked > reached else losses + 1
        reached = max(reached, marked)
        if losses >= LOSSES_MAX:
            raise JobError(f"{lost}; {LOSSES_MAX} attempts have failed, so start the run again")
        pause(LOOK_SECONDS * losses)


def _reason_of_start(error: Exception) -> str:
    reason = reason_of_job(error)
    if "data source: kafka" in reason.lower():
        return "the session has no Kafka connector: name it with --packages, or in spark.jars.packages"
    return f"the query does not start: {reason}"
