"""Short ways to read and stream with Spark, which return `Row`s that can be compared with Kafka's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from .kafka_side import PATIENCE_SECONDS, Row

COLUMNS = ["topic", "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value"]


def rows_of(frame: DataFrame) -> list[Row]:
    """Returns the rows of a frame in the order of topic, partition and offset, as `KafkaSide.rows` does."""
    columns = COLUMNS + (["headers"] if "headers" in frame.columns else [])
    found = [
        Row(
            row["topic"],
            row["partition"],
            row["offset"],
            row["timestamp_ms"],
            _bytes(row["key"]),
            _bytes(row["value"]),
            tuple((header["key"], _bytes(header["value"])) for header in row.asDict().get("headers") or ()),
        )
        for row in frame.selectExpr(*columns).collect()
    ]
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def offsets_json(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """Returns Spark's notation for positions: offsets (-2 for the first, -1 for the end) or timestamps of
    partitions."""
    return json.dumps({topic: {str(number): place for number, place in by.items()} for topic, by in offsets.items()})


class SparkSide:
    """Reads and streams from one cluster in one session."""

    def __init__(self, session: SparkSession, bootstrap: str) -> None:
        self.session = session
        self.bootstrap = bootstrap

    def frame(self, **options: Any) -> DataFrame:
        reader = self.session.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(**options).load()

    def rows(self, **options: Any) -> list[Row]:
        return rows_of(self.frame(**options))

    def stream(self, **options: Any) -> DataFrame:
        reader = self.session.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(**options).load()

    def frame_to_write(self, rows: Sequence[tuple[Any, ...]], schema: str | StructType) -> DataFrame:
        return self.session.createDataFrame(rows, schema)


class Job:
    """A streaming query that keeps its rows by batch number.

    If Spark runs a batch again, the new rows replace the old ones. All rows together are thus what an exactly-once sink
    would contain, and a duplicate or missing row is the source's fault. To call `start` again restarts the query from
    its checkpoint.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}
        self.progress: list[dict[str, Any]] = []

    @property
    def rows(self) -> list[Row]:
        found = [row for batch in self.batches.values() for row in batch]
        return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))

    def run_available(self, frame: DataFrame) -> list[Row]:
        """Reads everything that exists now, and returns the rows that this run has added."""
        before = set(self.batches)
        with self.running(frame, availableNow=True) as query:
            assert query.awaitTermination(int(PATIENCE_SECONDS)), "the query did not end in time"
            self.progress = [json.loads(progress.json) for progress in query.recentProgress]
        added = [row for number, batch in self.batches.items() if number not in before for row in batch]
        return sorted(added, key=lambda row: (row.topic, row.partition, row.offset))

    @contextmanager
    def running(self, frame: DataFrame, **trigger: Any) -> Iterator[StreamingQuery]:
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(**trigger).start()
        try:
            yield query
        finally:
            query.stop()

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = rows_of(frame)
