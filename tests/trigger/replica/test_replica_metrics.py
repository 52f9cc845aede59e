"""Tests the text of a replica's metrics."""

from tailrace.server.metric_text import render
from tailrace.trigger.replica.replica_metrics import (
    Histogram,
    ReplicaGauges,
    ReplicaMetrics,
    ShardGauges,
    replica_families,
)


def test_counters_and_gauges_have_the_name_of_the_trigger() -> None:
    metrics = ReplicaMetrics()
    metrics.events = 7
    metrics.failures["raised"] += 2
    metrics.handler_seconds.observe(0.002, 7)
    gauges = ReplicaGauges(2, 1, {3: ShardGauges(12, 1.5)})
    text = render(lambda: replica_families("billing", metrics, gauges)).decode()
    for line in (
        'tailrace_trigger_events_total{trigger="billing"} 7.0',
        'tailrace_trigger_failures_total{kind="raised",trigger="billing"} 2.0',
        'tailrace_trigger_handler_seconds_bucket{le="0.0025",trigger="billing"} 7.0',
        'tailrace_trigger_handler_seconds_bucket{le="0.001",trigger="billing"} 0.0',
        'tailrace_trigger_handler_seconds_count{trigger="billing"} 7.0',
        'tailrace_trigger_workers{trigger="billing"} 2.0',
        'tailrace_trigger_workers_busy{trigger="billing"} 1.0',
        'tailrace_trigger_lag_records{shard="3",trigger="billing"} 12.0',
        'tailrace_trigger_lag_seconds{shard="3",trigger="billing"} 1.5',
    ):
        assert line in text


def test_a_duration_at_a_bound_is_counted_there() -> None:
    histogram = Histogram()
    histogram.observe(0.001)
    histogram.observe(100.0)
    assert dict(histogram.buckets())["0.001"] == 1.0
    assert histogram.buckets()[-1] == ("+Inf", 2.0)
    assert histogram.sum == 100.001
