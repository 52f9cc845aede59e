"""Tests what counts of rows say; compat_tests/spark/test_lag.py asks a real driver for them."""

import pytest
from spark_progress import ReportingQuery, ReportingSession

from tailrace.client.log_facts import Partition
from tailrace.pipeline.lag.running_reads import (
    RunningReads,
    ScannedRanges,
    TaskRange,
    heartbeat_advice,
    positions_within,
)

ONE, TWO = Partition("orders", 0), Partition("orders", 1)


def test_a_task_is_as_far_as_it_has_read() -> None:
    scans = [ScannedRanges(7, [TaskRange(TWO, 100), TaskRange(ONE, 7)])]
    assert positions_within(scans, {7: [5, 3], 8: [50, 50]}) == {TWO: 105, ONE: 10}
    assert positions_within(scans, {7: [-1, 3]}) == {TWO: 100, ONE: 10}, "Spark counts -1 before the first row"
    assert positions_within(scans, {}) == {TWO: 100, ONE: 7}, "tasks that have not reported have read nothing"
    assert positions_within(scans, {7: [1, 2, 3]}) == {TWO: 100, ONE: 7}, "tasks of other scans have other indices"


def test_a_partition_that_several_tasks_read_is_where_the_first_is() -> None:
    scans = [ScannedRanges(7, [TaskRange(ONE, 50), TaskRange(ONE, 0)]), ScannedRanges(8, [TaskRange(ONE, 10)])]
    assert positions_within(scans, {7: [50, 20], 8: [90]}) == {ONE: 20}


def test_a_session_without_a_driver_tells_nothing() -> None:
    assert RunningReads(ReportingSession()).trigger_of(ReportingQuery()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("interval", ["1s", "3s", "3000ms", "3000", "3 s", "unknown", "5 lightyears"])
def test_reports_that_come_often_need_no_advice(interval: str) -> None:
    assert heartbeat_advice(interval) == ""


@pytest.mark.parametrize("interval", ["10s", "4s", "3001ms", "1m", "10000"])
def test_reports_that_come_rarely_are_said(interval: str) -> None:
    assert f"up to {interval} old" in heartbeat_advice(interval)
    assert "spark.executor.heartbeatInterval=3s or less" in heartbeat_advice(interval)
