"""Asks a Spark session for its streaming queries and their progress, through what PySpark offers everywhere.

`spark.streams.active` and `lastProgress` work in a classic session and with Spark Connect, and cost the query nothing.
A query that starts and ends between two looks is only seen by a listener, so there is one as well where it can be.
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock  # noqa: TID251 - Spark calls listeners in a thread of its own
from typing import TYPE_CHECKING, Any

from tailrace.pipeline.jobs.broker_addresses import BROKERS_OPTION
from tailrace.pipeline.jobs.job_errors import reason_of_job

from .query_progress import (
    ProgressError,
    QueryEnded,
    QueryEvent,
    QueryProgress,
    QueryReads,
    QueryStarted,
    Sight,
    read_progress,
)
from .running_reads import RunningReads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMING_RELATION = "StreamingRelationV2"
"""The class of the node of a plan that stands for a source."""
HEARD_RUNS_MAX = 1000
"""The number of runs whose events may wait for the next look; of more, the first are dropped."""


class Heard:
    """What a listener was told since the last look: for each run its last progress, and whether it has ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._progress: OrderedDict[str, str] = OrderedDict()
        self._ended: OrderedDict[str, QueryEnded] = OrderedDict()

    def on_progress(self, run_id: str, document: str) -> None:
        """Keeps the last progress of a run. Earlier progress says nothing more."""
        with self._lock:
            self._progress[run_id] = document
            while len(self._progress) > HEARD_RUNS_MAX:
                self._progress.popitem(last=False)

    def on_ended(self, query_id: str, run_id: str) -> None:
        with self._lock:
            self._ended[run_id] = QueryEnded(query_id, run_id)
            while len(self._ended) > HEARD_RUNS_MAX:
                self._ended.popitem(last=False)

    def take(self) -> tuple[list[str], list[QueryEnded]]:
        """Returns what was heard since the last call."""
        with self._lock:
            heard = list(self._progress.values()), list(self._ended.values())
            self._progress.clear()
            self._ended.clear()
        return heard


class SparkQueries:
    """The streaming queries of one session."""

    def __init__(self, spark: "SparkSession", heard: Heard) -> None:
        self._spark = spark
        self._reads = RunningReads(spark)
        self._heard = heard
        self._running: dict[str, Any] = {}
        """The queries that ran at the last look, by run. PySpark still knows their last progress when they end."""

    def look(self) -> Sight:
        """Returns what has happened since the last look. It waits for the JVM or the Connect server."""
        documents, ended = self._heard.take()
        try:
            active = {str(each.runId): each for each in self._spark.streams.active}
        except Exception as error:
            return self._heard_alone(documents, ended, error)
        gone = {run: query for run, query in self._running.items() if run not in active}
        problems: list[str] = []
        heard = _readable(documents, problems)
        # The runs of a query follow one another: what has ended comes before what runs now.
        events: list[QueryEvent] = []
        for run, query in gone.items():
            events += _readable(_last_progress(query, problems), problems)
            events.append(QueryEnded(str(query.id), run))
            self._reads.forget(run)
        for progress in heard:
            if progress.run_id not in active:
                events += [progress, QueryEnded(progress.query_id, progress.run_id)]
        events += [each for each in ended if each not in events]
        started = [
            QueryStarted(str(each.id), run, each.name or "") for run, each in active.items() if run not in self._running
        ]
        events += started
        events += [each for each in heard if each.run_id in active]
        for query in active.values():
            events += _readable(_last_progress(query, problems), problems)
        for run, query in active.items():
            try:
                trigger = self._reads.trigger_of(query)
            except Exception as error:  # a Spark with other classes
                problems.append(
                    f"the lag of queries in real-time mode is as old as their trigger: {reason_of_job(error)}"
                )
                continue
            if trigger is not None:
                events.append(QueryReads(str(query.id), run, trigger.batch_id, trigger.positions))
                problems += filter(None, [self._reads.advice()])
        brokers = ""
        for each in started:
            try:
                brokers = brokers or brokers_of(active[each.run_id])
            except Exception as error:  # a Spark with other classes
                problems.append(f"query {each.query_id} does not tell its brokers: {reason_of_job(error)}")
        self._running = active
        return Sight(tuple(events), tuple(problems), brokers=brokers)

    def _heard_alone(self, documents: Iterable[str], ended: Iterable[QueryEnded], failure: Exception) -> Sight:
        """Returns what the listener was told. A program may have stopped its session right after its last batch."""
        problems: list[str] = []
        return Sight((*_readable(documents, problems), *ended), tuple(problems), failure)


def _last_progress(query: Any, problems: list[str]) -> list[str]:
    """Returns the document of the last progress of a query; none before the first."""
    try:
        progress = query.lastProgress
    except Exception as error:  # a query that fails in this moment must not hide the others
        problems.append(f"query {query.id} did not report its progress: {type(error).__name__}")
        return []
    return [] if progress is None else [progress.json]


def _readable(documents: Iterable[str], problems: list[str]) -> list[QueryProgress]:
    """Reads documents of progress. Those that cannot be read become problems."""
    found = []
    for document in documents:
        try:
            found.append(read_progress(document))
        except ProgressError as error:
            problems.append(str(error))
    return found


def brokers_of(query: Any) -> str:
    """Returns the brokers that the plan of a query names; an empty text if there are none, or no plan in reach."""
    java = getattr(query, "_jsq", None)
    if java is None:
        return ""
    leaves = java.streamingQuery().analyzedPlan().collectLeaves()
    for each in range(leaves.size()):
        leaf = leaves.apply(each)
        if leaf.getClass().getSimpleName() == STREAMING_RELATION:
            found = leaf.extraOptions().get(BROKERS_OPTION)
            if found:
                return str(found)
    return ""
