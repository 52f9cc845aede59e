"""Finds where a query in real-time mode is while its trigger runs, which takes minutes by default.

Spark writes offsets and reports progress only when the trigger ends. Until then, executors report with each heartbeat
how many rows each task has read, for the SQL page of Spark's UI. The plan says which task reads which partition, and
from where. So the position is known within a heartbeat. Offsets without a record, such as compacted ones and markers,
are not counted: the position is then too low until the trigger ends, and never too high.

With Spark Connect the driver's plan and tasks are out of reach. A trigger of a few seconds shows as much there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tailrace.client.log_facts import Partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REAL_TIME_SCAN = "RealTimeStreamScanExec"
"""The class of the plan's node that reads in real-time mode."""
HEARTBEAT_CONFIG = "spark.executor.heartbeatInterval"
HEARTBEAT_DEFAULT = "10s"
HEARTBEAT_SECONDS_MAX = 3.0
"""The longest interval with which positions are at most five seconds old."""

_SECONDS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "": 0.001}
"""The units of times in Spark's settings of this kind, whose plain numbers are milliseconds."""


class TaskRange(Struct, frozen=True):
    """What one task reads: a partition, from an offset on."""

    partition: Partition
    first: int


class ScannedRanges(Struct, frozen=True):
    """What the tasks of one scan read."""

    metric: int
    """The id under which Spark counts the rows of the scan."""
    ranges: Sequence[TaskRange]


class RunningTrigger(Struct, frozen=True):
    """How far the trigger of a query has read that runs now."""

    batch_id: int
    positions: Mapping[Partition, int]


def positions_within(
    scans: Iterable[ScannedRanges], rows_by_metric: Mapping[int, Sequence[int]]
) -> dict[Partition, int]:
    """Returns where scans are, from the rows that each task has read, in the order of tasks.

    If several tasks read one partition, the offset that the first of them has reached counts.
    """
    found: dict[Partition, int] = {}
    for scan in scans:
        rows = rows_by_metric.get(scan.metric, ())
        if len(rows) != len(scan.ranges):
            rows = [0] * len(scan.ranges)  # no task has reported yet, or the tasks are not those of the scan alone
        for each, count in zip(scan.ranges, rows, strict=True):
            position = each.first + max(0, count)
            found[each.partition] = min(position, found.get(each.partition, position))
    return found


def heartbeat_advice(interval: str) -> str:
    """Returns a sentence if executors report too rarely with this setting; an empty text otherwise."""
    found = re.fullmatch(r"([0-9]+) *([a-z]*)", interval.strip().lower())
    if found is None or found[2] not in _SECONDS or int(found[1]) * _SECONDS[found[2]] <= HEARTBEAT_SECONDS_MAX:
        return ""
    return (
        f"the lag of queries in real-time mode is up to {interval} old, because executors report that rarely: "
        f"start Spark with {HEARTBEAT_CONFIG}={HEARTBEAT_SECONDS_MAX:.0f}s or less"
    )


class RunningReads:
    """Asks the driver of a classic session about running triggers."""

    def __init__(self, spark: "SparkSession", scan: str = REAL_TIME_SCAN) -> None:
        self._spark = spark
        self._scan = scan
        self._plans: dict[str, tuple[int, list[ScannedRanges]]] = {}
        """The batch and the scans of each run. A plan of many partitions takes many calls to read."""

    def trigger_of(self, query: Any) -> RunningTrigger | None:
        """Returns where the query is within its running trigger; None if it is in another mode, or not in reach."""
        java = getattr(query, "_jsq", None)
        execution = java.streamingQuery().lastExecution() if java is not None else None
        if execution is None:
            return None
        run, batch = str(query.runId), int(execution.currentBatchId())
        known, scans = self._plans.get(run, (-1, []))
        if known != batch:
            scans = self._scans(execution)
            self._plans[run] = batch, scans
        return RunningTrigger(batch, positions_within(scans, self._rows_read())) if scans else None

    def forget(self, run_id: str) -> None:
        """Forgets the plan of a run that has ended."""
        self._plans.pop(run_id, None)

    def advice(self) -> str:
        """Returns what would make positions newer; an empty text if nothing needs to."""
        return heartbeat_advice(self._spark.sparkContext.getConf().get(HEARTBEAT_CONFIG, HEARTBEAT_DEFAULT) or "")

    def _scans(self, execution: Any) -> list[ScannedRanges]:
        leaves = execution.executedPlan().collectLeaves()
        nodes = [leaves.apply(each) for each in range(leaves.size())]
        return [_scan(each) for each in nodes if each.getClass().getSimpleName() == self._scan]

    def _rows_read(self) -> dict[int, list[int]]:
        """Returns the counts of all running stages by metric and task.

        Task metrics, which have a public API, are not counted while a task runs in local mode.
        """
        java: Any = self._spark
        listener = java._jsparkSession.sharedState().statusStore().listener().get()
        field = listener.getClass().getDeclaredField("stageMetrics")
        field.setAccessible(True)
        to_text = java._jvm.java.util.Arrays.toString
        found: dict[int, list[int]] = {}
        by_stage = field.get(listener)
        for stage in map(by_stage.get, list(by_stage)):
            if stage is None:  # it has ended since
                continue
            values = stage.metricValues()
            for each in range(values.size()):
                pair = values.apply(each)
                found[int(pair._1())] = [int(count) for count in to_text(pair._2()).strip("[]").split(",") if count]
        return found


def _scan(node: Any) -> ScannedRanges:
    parts = node.inputPartitions()
    ranges = [_range(parts.apply(each).offsetRange()) for each in range(parts.size())]
    return ScannedRanges(int(node.metrics().apply("numOutputRows").id()), ranges)


def _range(java: Any) -> TaskRange:
    place = java.topicPartition()
    return TaskRange(Partition(place.topic(), place.partition()), java.fromOffset())
