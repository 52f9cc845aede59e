import json
from typing import Any

import pytest
from msgspec import Struct
from pyspark import cloudpickle
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent
from spark_progress import ID, RUN, kafka_source, progress_document

from tailrace.pipeline.lag.progress_listener import progress_listener
from tailrace.pipeline.lag.query_progress import QueryEnded, read_progress
from tailrace.pipeline.lag.spark_queries import Heard

DOCUMENT = progress_document(kafka_source({"orders": {"0": 10}}))


def test_events_of_pyspark_are_heard() -> None:
    heard = Heard()
    changes: list[None] = []
    listener = progress_listener(heard, lambda: changes.append(None))
    listener.onQueryStarted(QueryStartedEvent.fromJson({"id": ID, "runId": RUN, "name": None, "timestamp": ""}))
    assert len(changes) == 1
    listener.onQueryProgress(QueryProgressEvent.fromJson({"progress": json.loads(DOCUMENT)}))
    ended = {"id": ID, "runId": RUN, "exception": None, "errorClassOnException": None}
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson(ended))
    assert len(changes) == 2
    (document,), ends = heard.take()
    assert read_progress(document) == read_progress(DOCUMENT)
    assert ends == [QueryEnded(ID, RUN)]


class Broken(Struct):
    @property
    def progress(self) -> Any:
        raise RuntimeError("the JVM is gone")


def broken() -> None:
    raise RuntimeError("the loop is gone")


def test_the_listener_raises_nothing() -> None:
    heard = Heard()
    listener: Any = progress_listener(heard, broken)
    listener.onQueryProgress(Broken())
    listener.onQueryTerminated(Broken())
    listener.onQueryStarted(Broken())
    listener.onQueryIdle(Broken())
    assert heard.take() == ([], [])


def test_the_listener_refuses_to_be_sent_to_another_process() -> None:
    with pytest.raises(TypeError, match="works only in the process"):
        cloudpickle.dumps(progress_listener(Heard(), broken))
