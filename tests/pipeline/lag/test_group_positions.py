import pytest
from spark_progress import ID, NEXT_RUN, RUN

from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag import group_positions
from tailrace.pipeline.lag.group_positions import REFRESH_SECONDS, RETRY_SECONDS, GroupNameError, GroupPositions
from tailrace.pipeline.lag.query_progress import QueryEnded, QueryProgress, QueryReads, QueryStarted

ORDERS, REFUNDS = Partition("orders", 0), Partition("refunds", 0)


def _progress(offset: int, batch: int = 1, run: str = RUN, query: str = ID, name: str = "billing") -> QueryProgress:
    return QueryProgress(query, run, name, batch, {ORDERS: offset})


def test_progress_is_due_once() -> None:
    positions = GroupPositions("g")
    positions.on_event(_progress(5))
    assert positions.due(0.0) == {"g": {ORDERS: 5}}
    positions.on_committed("g", {ORDERS: 5}, 0.0)
    assert positions.due(1.0) == {}
    positions.on_event(_progress(9, batch=2))
    assert positions.due(1.0) == {"g": {ORDERS: 9}}


def test_an_offset_that_does_not_change_is_committed_again_before_brokers_delete_it() -> None:
    positions = GroupPositions("g")
    positions.on_event(_progress(5))
    positions.on_committed("g", {ORDERS: 5}, 0.0)
    assert positions.due(REFRESH_SECONDS - 1) == {}
    assert positions.due(REFRESH_SECONDS) == {"g": {ORDERS: 5}}


def test_events_that_come_twice_or_late_change_nothing() -> None:
    positions = GroupPositions("g")
    assert positions.on_progress(_progress(9, batch=2))
    assert not positions.on_progress(_progress(9, batch=2))
    assert not positions.on_progress(_progress(5, batch=1))
    assert positions.wanted() == {"g": {ORDERS: 9}}


def test_a_new_run_keeps_the_positions_until_it_reports_and_may_go_back() -> None:
    positions = GroupPositions("g")
    positions.on_event(_progress(9, batch=7))
    positions.on_event(QueryEnded(ID, RUN))
    positions.on_event(QueryStarted(ID, NEXT_RUN, "billing"))
    assert positions.wanted() == {"g": {ORDERS: 9}}
    positions.on_event(_progress(4, batch=0, run=NEXT_RUN))
    assert positions.wanted() == {"g": {ORDERS: 4}}
    assert not positions.on_progress(_progress(20, batch=8)), "this run was replaced"
    positions.on_event(QueryEnded(ID, RUN))
    (query,) = positions.queries
    assert query.is_active
    assert positions.wanted() == {"g": {ORDERS: 4}}


def test_late_progress_of_a_run_that_was_never_seen_does_not_replace_the_active_run() -> None:
    positions = GroupPositions("g")
    positions.on_event(QueryStarted(ID, NEXT_RUN, "billing"))
    assert positions.on_progress(_progress(4, batch=0)), "the active run has reported nothing yet"
    positions.on_event(QueryEnded(ID, RUN))
    assert positions.wanted() == {"g": {ORDERS: 4}}
    assert positions.on_progress(_progress(9, batch=1, run=NEXT_RUN))
    assert not positions.on_progress(_progress(5, batch=1))
    assert positions.wanted() == {"g": {ORDERS: 9}}
    assert positions.queries[0].is_active


def test_a_run_that_reads_nothing_is_where_the_run_before_it_has_ended() -> None:
    positions = GroupPositions("g")
    positions.on_event(_progress(4, batch=0))
    positions.on_event(QueryStarted(ID, NEXT_RUN, "billing"))
    assert positions.on_progress(_progress(9, batch=1)), "the last batch of the run before comes late"
    assert not positions.on_progress(_progress(4, batch=0))
    assert positions.wanted() == {"g": {ORDERS: 9}}


def test_a_run_after_one_that_has_ended_takes_its_place() -> None:
    positions = GroupPositions("g")
    for run, offset in ((RUN, 4), (NEXT_RUN, 9)):
        positions.on_event(_progress(offset, batch=offset, run=run))
        positions.on_event(QueryEnded(ID, run))
    assert positions.wanted() == {"g": {ORDERS: 9}}
    assert not positions.queries[0].is_active


def test_a_refused_offset_is_due_again_soon_while_its_query_runs() -> None:
    positions = GroupPositions("g")
    positions.on_event(_progress(5))
    positions.on_refused("g", {ORDERS: 5}, 0.0)
    assert positions.has_refused
    assert positions.due(RETRY_SECONDS - 1) == {}
    assert positions.due(RETRY_SECONDS) == {"g": {ORDERS: 5}}
    positions.on_event(QueryEnded(ID, RUN))
    positions.on_refused("g", {ORDERS: 5}, 0.0)
    assert positions.due(REFRESH_SECONDS - 1) == {}, "the topic may be deleted"
    positions.on_committed("g", {ORDERS: 5}, 0.0)
    assert not positions.has_refused


def test_a_running_trigger_moves_its_query_ahead_and_its_end_decides() -> None:
    positions = GroupPositions("g")
    positions.on_event(QueryStarted(ID, RUN, "billing"))
    positions.on_event(QueryReads(ID, RUN, 0, {ORDERS: 5}))
    assert positions.wanted() == {"g": {ORDERS: 5}}
    positions.on_event(QueryReads(ID, RUN, 0, {ORDERS: 3, REFUNDS: 1}))
    assert positions.wanted() == {"g": {ORDERS: 5, REFUNDS: 1}}, "the counts of a trigger go first, when it ends"
    positions.on_event(QueryReads(ID, NEXT_RUN, 0, {ORDERS: 50}))
    positions.on_event(QueryReads("unknown", RUN, 0, {ORDERS: 50}))
    assert positions.wanted() == {"g": {ORDERS: 5, REFUNDS: 1}}
    positions.on_event(_progress(7, batch=0))
    positions.on_event(QueryReads(ID, RUN, 0, {ORDERS: 6}))
    assert positions.wanted() == {"g": {ORDERS: 7}}
    positions.on_event(QueryReads(ID, RUN, 1, {ORDERS: 9}))
    assert positions.wanted() == {"g": {ORDERS: 9}}


def test_a_run_that_reads_records_again_is_where_it_reads() -> None:
    positions = GroupPositions("g")
    positions.on_event(QueryStarted(ID, RUN, "billing"))
    positions.on_event(QueryReads(ID, RUN, 3, {ORDERS: 90}))
    positions.on_event(QueryStarted(ID, NEXT_RUN, "billing"))
    assert positions.wanted() == {"g": {ORDERS: 90}}
    positions.on_event(QueryReads(ID, NEXT_RUN, 3, {ORDERS: 40}))
    assert positions.wanted() == {"g": {ORDERS: 40}}


def test_the_slowest_running_query_of_a_group_decides() -> None:
    positions = GroupPositions("g")
    positions.on_event(_progress(9))
    positions.on_event(_progress(4, query="other", run="other-run"))
    assert positions.wanted() == {"g": {ORDERS: 4}}
    positions.on_event(QueryEnded("other", "other-run"))
    assert positions.wanted() == {"g": {ORDERS: 9}}
    positions.on_event(QueryEnded(ID, RUN))
    assert positions.wanted() == {"g": {ORDERS: 4}}, "the query that started last"


def test_each_query_gets_its_own_group_if_the_name_says_so() -> None:
    positions = GroupPositions("spark-{query}")
    positions.on_event(_progress(9))
    positions.on_event(_progress(4, query="other", run="other-run", name=""))
    assert positions.due(0.0) == {"spark-billing": {ORDERS: 9}, "spark-other": {ORDERS: 4}}


def test_without_a_group_nothing_is_committed() -> None:
    positions = GroupPositions(None)
    positions.on_event(_progress(9))
    assert positions.due(0.0) == {}
    assert positions.queries[0].positions == {ORDERS: 9}


@pytest.mark.parametrize("name", ["", "  "])
def test_a_group_needs_a_name(name: str) -> None:
    with pytest.raises(GroupNameError, match="the group needs a name"):
        GroupPositions(name)


def test_the_number_of_known_queries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_positions, "QUERIES_MAX", 2)
    positions = GroupPositions("spark-{query}")
    for name in ("one", "two", "three"):
        positions.on_event(_progress(1, query=name, run=name, name=name))
        positions.on_committed(f"spark-{name}", {ORDERS: 1}, 0.0)
        positions.on_event(QueryEnded("two", "two"))
    assert [each.name for each in positions.queries] == ["one", "three"]
    assert positions.due(0.0) == {}
