"""How the tests read and stream with Spark: short forms that give `Row`s to compare with Kafka's own view."""

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
    """The frame's rows in the order of topic, partition and offset, as `KafkaSide.rows` gives them."""
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
    """Spark's notation of a place per partition: of an offset (-2 the first, -1 the end) or of a timestamp."""
    return json.dumps({topic: {str(number): place for number, place in by.items()} for topic, by in offsets.items()})


class SparkSide:
    """Reads and streams of one session from one cluster."""

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
    """A streaming query that keeps what it was given by batch number.

    A batch that Spark runs again replaces itself, so the rows of all batches together are what an exactly-once sink
    would hold: a row twice or never is the source's doing. `start` again on the same object is a restart from the
    checkpoint.
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
        """Runs until all that is there now is read, and gives what this run added."""
        before = set(self.batches)
        with self.running(frame, availableNow=True) as query:
            assert query.awaitTermination(int(PATIENCE_SECONDS)), "the query did not come to its end"
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
