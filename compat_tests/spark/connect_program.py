"""A program of a user whose session is a client of Spark Connect. It prints what it has seen as JSON.

`python connect_program.py REMOTE BOOTSTRAP TOPIC SPU ARCHIVE CHECKPOINTS`. A process can have a session of its own or
be a client, not both.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kafka_side import PATIENCE_SECONDS, KafkaSide, committed
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from waiting import wait_until

from tailrace.pipeline.archive import archive, compact, read_archive, verify
from tailrace.pipeline.audit import audit
from tailrace.pipeline.jobs.job_errors import JobError
from tailrace.pipeline.lag import attach
from tailrace.pipeline.replay import replay, verify_replay
from tailrace.pipeline.segments import register
from tailrace.pipeline.stats import stats


def main() -> None:
    remote, bootstrap, topic, spu, archived, checkpoints = sys.argv[1:]
    spark = SparkSession.builder.remote(remote).getOrCreate()
    found = {
        "lag": _lag(spark, bootstrap, topic, checkpoints),
        "a query that ends at once": _quick(spark, bootstrap, topic, checkpoints),
        "segments": _segments(spark, spu, checkpoints),
        "archive": read_archive(spark, archived, topics=["events"]).count(),
        "statistics": [stats(spark, segments=[spu]).facts["records"], stats(spark, archive=archived).facts["records"]],
        "refused": _refused(spark, bootstrap, spu, archived),
        "a session that ends at once": _stopped(spark, bootstrap, topic, checkpoints),
    }
    print(json.dumps(found), flush=True)


class Ends(StreamingQueryListener):
    """Hears of the ends of queries. Spark tells listeners in their order, so those before this one know as well."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None: ...

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None:
        self.ended.set()


def _run(spark: SparkSession, writer: Any) -> None:
    """Runs a query over what there is now, until listeners have heard that it has ended."""
    ends = Ends()
    spark.streams.addListener(ends)
    assert writer.trigger(availableNow=True).start().awaitTermination(int(PATIENCE_SECONDS))
    assert ends.ended.wait(PATIENCE_SECONDS)
    spark.streams.removeListener(ends)


def _stream(spark: SparkSession, bootstrap: str, topic: str) -> Any:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("kafka").options(**options).load().writeStream.format("noop")


def _lag(spark: SparkSession, bootstrap: str, topic: str, checkpoints: str) -> list[list[int]]:
    """Returns position and lag of each partition after a query has run."""
    side = KafkaSide(bootstrap)
    writer = _stream(spark, bootstrap, topic).queryName("billing").option("checkpointLocation", f"{checkpoints}/lag")
    with attach(spark, f"{topic}-{{query}}", bootstrap=bootstrap, interval_seconds=0.1) as attachment:
        query = writer.trigger(processingTime="100 milliseconds").start()
        for more, end in ((10, 10), (5, 15)):
            side.send_values(topic, range(more), 0)
            ends = {0: end, 1: 0}
            wait_until(lambda: committed(bootstrap, f"{topic}-billing") == ends, PATIENCE_SECONDS, "commits")  # noqa: B023
        query.stop()
        wait_until(lambda: not any(each.is_active for each in attachment.rows), PATIENCE_SECONDS, "the end")
        side.send_values(topic, range(3), 1)
        wait_until(lambda: any(each.lag_records for each in attachment.rows), PATIENCE_SECONDS, "lag")
        return [[each.position, each.lag_records] for each in attachment.rows]


def _quick(spark: SparkSession, bootstrap: str, topic: str, checkpoints: str) -> dict[int, int]:
    """Returns what is committed for a query that only the listener has seen."""
    group = f"{topic}-quick"
    with attach(spark, group, bootstrap=bootstrap, interval_seconds=PATIENCE_SECONDS) as attachment:
        wait_until(lambda: attachment.has_looked, PATIENCE_SECONDS, "the first look is over")
        _run(spark, _stream(spark, bootstrap, topic).option("checkpointLocation", f"{checkpoints}/quick"))
    return committed(bootstrap, group)


def _stopped(spark: SparkSession, bootstrap: str, topic: str, checkpoints: str) -> dict[int, int]:
    """Returns what is committed for a query whose session was stopped right after it."""
    group = f"{topic}-stopped"
    with attach(spark, group, bootstrap=bootstrap, interval_seconds=PATIENCE_SECONDS) as attachment:
        wait_until(lambda: attachment.has_looked, PATIENCE_SECONDS, "the first look is over")
        _run(spark, _stream(spark, bootstrap, topic).option("checkpointLocation", f"{checkpoints}/stopped"))
        spark.stop()
    return committed(bootstrap, group)


def _segments(spark: SparkSession, spu: str, checkpoints: str) -> list[int]:
    """Returns how many records a batch and a stream have read."""
    register(spark)
    rows = spark.read.format("tailrace-segments").options(topic="events", includeUnsealed="true").load(spu)
    frame = spark.readStream.format("tailrace-segments").option("includeUnsealed", "true").load(spu)
    writer = frame.writeStream.format("memory").queryName("seen").option("checkpointLocation", f"{checkpoints}/seen")
    assert writer.trigger(availableNow=True).start().awaitTermination(int(PATIENCE_SECONDS))
    return [rows.count(), spark.table("seen").count()]


def _refused(spark: SparkSession, bootstrap: str, spu: str, archived: str) -> dict[str, str]:
    """Returns what the jobs say that need a classic session."""
    source: Mapping[str, Any] = {"from_segments": [spu], "topic": "events", "to_topic": "copy", "bootstrap": bootstrap}
    jobs: dict[str, Callable[[], object]] = {
        "archive": lambda: archive(spark, ["events"], f"{archived}-2", segments=[spu]),
        "verify": lambda: verify(spark, archived),
        "compact": lambda: compact(spark, archived),
        "audit": lambda: audit(spark, [spu]),
        "replay": lambda: replay(spark, map_directory=f"{archived}-map", **source),
        "dry run": lambda: replay(spark, dry_run=True, **source),
        "verify-replay": lambda: verify_replay(spark, f"{archived}-map"),
    }
    said = {}
    for name, job in jobs.items():
        try:
            job()
        except JobError as error:
            said[name] = str(error)
        else:
            said[name] = "no error"
    return said


if __name__ == "__main__":
    main()
