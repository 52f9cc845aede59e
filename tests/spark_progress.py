"""Progress documents as Spark 4.0 writes them, and the queries of a session that reports them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

ID = "ce011fdc-8762-4dcb-84eb-a77333e28109"
RUN = "88e2ff94-ede0-45a8-b687-6316fbef529a"
NEXT_RUN = "9cf2ff94-ede0-45a8-b687-6316fbef5300"

Offsets = Mapping[str, Mapping[str, int]]


def kafka_source(end: Offsets | str | None, start: Offsets | None = None, topics: str = "orders") -> dict[str, Any]:
    """Returns the part of a document about a Kafka source."""
    return {
        "description": f"KafkaV2[Subscribe[{topics}]]",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": end,
        "numInputRows": 10,
        "inputRowsPerSecond": 120.0,
        "processedRowsPerSecond": 200.0,
        "metrics": {
            "avgOffsetsBehindLatest": "0.0",
            "maxOffsetsBehindLatest": "0",
            "minOffsetsBehindLatest": "0",
        },
    }


RATE_SOURCE = {
    "description": "RateStreamV2[rowsPerSecond=1, rampUpTimeSeconds=0, numPartitions=2]",
    "startOffset": 4,
    "endOffset": 5,
    "latestOffset": 5,
    "numInputRows": 1,
    "inputRowsPerSecond": 1.0,
    "processedRowsPerSecond": 7.0,
}
FILE_SOURCE = {
    "description": "FileStreamSource[file:/in]",
    "startOffset": {"logOffset": 1},
    "endOffset": {"logOffset": 2},
    "latestOffset": None,
    "numInputRows": 1,
    "inputRowsPerSecond": 1.0,
    "processedRowsPerSecond": 7.0,
}


def progress_document(
    *sources: Mapping[str, Any], batch: int = 3, run: str = RUN, name: str | None = "billing", query: str = ID
) -> str:
    """Returns the JSON of a StreamingQueryProgress."""
    return json.dumps(
        {
            "id": query,
            "runId": run,
            "name": name,
            "timestamp": "2026-01-05T10:00:00.000Z",
            "batchId": batch,
            "batchDuration": 512,
            "numInputRows": 10,
            "inputRowsPerSecond": 120.0,
            "processedRowsPerSecond": 200.0,
            "durationMs": {
                "addBatch": 351,
                "commitBatch": 22,
                "commitOffsets": 25,
                "getBatch": 0,
                "latestOffset": 5,
                "queryPlanning": 12,
                "triggerExecution": 512,
                "walCommit": 30,
            },
            "stateOperators": [],
            "sources": list(sources),
            "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        }
    )


class ReportedProgress(Struct):
    json: str


class ReportingQuery(Struct):
    """A query as PySpark shows it."""

    id: str = ID
    runId: str = RUN  # noqa: N815 - PySpark's name
    name: str | None = "billing"
    document: str | None = None
    error: Exception | None = None

    @property
    def lastProgress(self) -> ReportedProgress | None:  # noqa: N802 - PySpark's name
        if self.error is not None:
            raise self.error
        return None if self.document is None else ReportedProgress(self.document)


class Streams(Struct):
    active: Sequence[ReportingQuery] = ()
    listeners: list[Any] = field(default_factory=list)

    def addListener(self, listener: Any) -> None:  # noqa: N802 - PySpark's name
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:  # noqa: N802 - PySpark's name
        self.listeners.remove(listener)


class ReportingSession(Struct):
    """A session as far as the lag needs it: no test of decisions starts a JVM."""

    streams: Streams = field(default_factory=Streams)
