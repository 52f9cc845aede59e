from tailrace.client.log_facts import LogEnds, Partition
from tailrace.pipeline.lag.group_positions import KnownQuery
from tailrace.pipeline.lag.lag_rows import LagRow, lag_rows, unread

ONE, TWO, THREE = (Partition("orders", number) for number in range(3))
NOW_MS = 100_000


def _query(**positions: int) -> KnownQuery:
    found = {Partition("orders", int(each[1:])): offset for each, offset in positions.items()}
    return KnownQuery("id", "run", "billing", "g", positions=found)


def _rows(query: KnownQuery, ends: dict[Partition, LogEnds], times: dict[Partition, int | None]) -> list[LagRow]:
    return list(lag_rows(query, ends, times, NOW_MS))


def test_lag_is_what_is_left_and_how_old_the_first_of_it_is() -> None:
    (row,) = _rows(_query(p0=4), {ONE: LogEnds(0, 10)}, {ONE: NOW_MS - 2500})
    assert (row.query, row.group, row.partition, row.position, row.end) == ("billing", "g", ONE, 4, 10)
    assert (row.lag_records, row.lag_seconds) == (6, 2.5)


def test_a_query_at_the_end_has_no_lag() -> None:
    for position in (10, 12):  # an end may be older than a position
        (row,) = _rows(_query(p0=position), {ONE: LogEnds(0, 10)}, {})
        assert (row.lag_records, row.lag_seconds) == (0, 0.0)


def test_deleted_records_are_no_lag() -> None:
    ends = {ONE: LogEnds(7, 10)}
    assert unread(_query(p0=4), ends) == {ONE: 7}
    (row,) = _rows(_query(p0=4), ends, {ONE: NOW_MS})
    assert (row.position, row.lag_records) == (4, 3)


def test_a_log_whose_records_are_all_deleted_has_no_lag() -> None:
    (row,) = _rows(_query(p0=4), {ONE: LogEnds(10, 10)}, {})
    assert row.lag_records == 0


def test_an_unknown_time_gives_an_unknown_age() -> None:
    for times in ({}, {ONE: None}, {ONE: -1}):
        (row,) = _rows(_query(p0=4), {ONE: LogEnds(0, 10)}, times)  # type: ignore[arg-type]
        assert (row.lag_records, row.lag_seconds) == (6, None)


def test_a_record_from_the_future_is_not_negative_lag() -> None:
    (row,) = _rows(_query(p0=4), {ONE: LogEnds(0, 10)}, {ONE: NOW_MS + 5000})
    assert row.lag_seconds == 0.0


def test_partitions_without_a_known_end_are_left_out() -> None:
    assert [each.partition for each in _rows(_query(p0=4, p1=1), {TWO: LogEnds(0, 3)}, {})] == [TWO]


def test_the_largest_lags_come_first() -> None:
    ends = {ONE: LogEnds(0, 10), TWO: LogEnds(0, 100), THREE: LogEnds(0, 50)}
    assert list(unread(_query(p0=9, p1=0, p2=50), ends)) == [TWO, ONE]
