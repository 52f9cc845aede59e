import pytest
from spark_progress import ID, NEXT_RUN, RUN, ReportingQuery, ReportingSession, kafka_source, progress_document

from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag import spark_queries
from tailrace.pipeline.lag.query_progress import QueryEnded, QueryProgress, QueryStarted
from tailrace.pipeline.lag.spark_queries import Heard, SparkQueries


def _document(offset: int, batch: int = 1, run: str = RUN) -> str:
    return progress_document(kafka_source({"orders": {"0": offset}}), batch=batch, run=run)


def _progress(offset: int, batch: int = 1, run: str = RUN) -> QueryProgress:
    return QueryProgress(ID, run, "billing", batch, {Partition("orders", 0): offset})


def test_a_look_shows_new_queries_and_their_progress() -> None:
    session = ReportingSession()
    queries = SparkQueries(session, Heard())  # type: ignore[arg-type]
    assert queries.look().events == ()
    query = ReportingQuery()
    session.streams.active = [query]
    assert queries.look().events == (QueryStarted(ID, RUN, "billing"),)
    query.document = _document(5)
    assert queries.look().events == (_progress(5),)


def test_a_query_that_has_ended_shows_its_last_progress_and_then_its_end() -> None:
    query = ReportingQuery(document=_document(5))
    session = ReportingSession()
    session.streams.active = [query]
    queries = SparkQueries(session, Heard())  # type: ignore[arg-type]
    queries.look()
    query.document, session.streams.active = _document(9, batch=2), []
    assert queries.look().events == (_progress(9, batch=2), QueryEnded(ID, RUN))
    assert queries.look().events == ()


def test_a_listener_adds_queries_that_were_never_seen_running() -> None:
    heard = Heard()
    heard.on_progress(RUN, _document(4, batch=0))
    heard.on_progress(RUN, _document(9, batch=1))
    heard.on_ended(ID, RUN)
    queries = SparkQueries(ReportingSession(), heard)  # type: ignore[arg-type]
    assert queries.look().events == (_progress(9), QueryEnded(ID, RUN))


def test_a_query_that_reports_nothing_readable_does_not_hide_the_others() -> None:
    session = ReportingSession()
    session.streams.active = [
        ReportingQuery(id="a", runId="a", error=RuntimeError("the JVM is gone")),
        ReportingQuery(id="b", runId="b", document="{}"),
        ReportingQuery(runId=NEXT_RUN, document=_document(5, run=NEXT_RUN)),
    ]
    sight = SparkQueries(session, Heard()).look()  # type: ignore[arg-type]
    assert _progress(5, run=NEXT_RUN) in sight.events
    assert len(sight.problems) == 2
    assert sight.problems[0] == "query a did not report its progress: RuntimeError"


def test_what_was_heard_is_not_lost_with_the_session() -> None:
    session, heard = ReportingSession(), Heard()
    queries = SparkQueries(session, heard)  # type: ignore[arg-type]
    session.streams.active = [ReportingQuery()]
    queries.look()
    heard.on_progress(RUN, _document(9))
    heard.on_ended(ID, RUN)
    session.streams = StoppedStreams()  # type: ignore[assignment]
    sight = queries.look()
    assert sight.events == (_progress(9), QueryEnded(ID, RUN))
    assert str(sight.failure) == "no active session"


class StoppedStreams:
    @property
    def active(self) -> None:
        raise RuntimeError("no active session")


def test_what_is_heard_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_queries, "HEARD_RUNS_MAX", 2)
    heard = Heard()
    for run in ("a", "b", "c"):
        heard.on_progress(run, run)
        heard.on_ended(ID, run)
    documents, ended = heard.take()
    assert documents == ["b", "c"]
    assert [each.run_id for each in ended] == ["b", "c"]
    assert heard.take() == ([], [])


def test_what_earlier_runs_have_done_comes_before_the_run_that_is_active() -> None:
    """A query that stops and starts again between two looks must not be left to events of its earlier runs."""
    session, heard = ReportingSession(), Heard()
    queries = SparkQueries(session, heard)  # type: ignore[arg-type]
    session.streams.active = [ReportingQuery(runId="first")]
    queries.look()
    heard.on_progress("second", _document(7, batch=2, run="second"))
    heard.on_progress(RUN, _document(9, batch=3))
    heard.on_ended(ID, "second")
    gone = session.streams.active[0]
    gone.document = _document(5, batch=1, run="first")
    session.streams.active = [ReportingQuery()]
    assert queries.look().events == (
        _progress(5, batch=1, run="first"),
        QueryEnded(ID, "first"),
        _progress(7, batch=2, run="second"),
        QueryEnded(ID, "second"),
        QueryStarted(ID, RUN, "billing"),
        _progress(9, batch=3),
    )
