"""The metrics of a replica: counters as plain numbers, gauges of its shards and workers, as Prometheus families."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SECONDS_BOUNDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
)


class Histogram:
    """A histogram of durations in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS_BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        """Counts a duration, which several events may share."""
        self.counts[bisect_left(SECONDS_BOUNDS, seconds)] += times
        self.sum += seconds * times

    def buckets(self) -> list[tuple[str, float]]:
        """Returns the buckets as Prometheus has them: each counts everything up to its bound."""
        bounds = [*map(str, SECONDS_BOUNDS), "+Inf"]
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self.counts), strict=True)]


class ReplicaMetrics:
    """The counters of one replica."""

    def __init__(self) -> None:
        self.events = 0
        self.failures: Counter[str] = Counter()
        """By kind of failure."""
        self.retries = 0
        self.dead_letters = 0
        self.skipped = 0
        self.outputs = 0
        self.commits = 0
        self.failed_commits = 0
        self.fenced_commits = 0
        self.lost_transactions = 0
        self.rebalances: Counter[str] = Counter()
        """By cause."""
        self.read_bytes = 0
        self.queue_seconds = Histogram()
        self.handler_seconds = Histogram()


class ShardGauges(Struct, frozen=True):
    """One shard at the moment of a scrape."""

    lag_records: int
    lag_seconds: float
    open_events: int = 0


class ReplicaGauges(Struct, frozen=True):
    """A replica at the moment of a scrape."""

    workers: int = 0
    workers_busy: int = 0
    shards: Mapping[int, ShardGauges] = field(default_factory=dict)


def replica_families(trigger: str, metrics: ReplicaMetrics, gauges: ReplicaGauges) -> Iterator["Metric"]:
    """Yields the metrics of a replica; each has the name of the trigger as a label."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    def counter(name: str, text: str, value: float) -> "Metric":
        family = CounterMetricFamily(f"tailrace_trigger_{name}", text, labels=["trigger"])
        family.add_metric([trigger], value)
        return family

    def counter_by(name: str, text: str, label: str, values: Mapping[str, int]) -> "Metric":
        family = CounterMetricFamily(f"tailrace_trigger_{name}", text, labels=["trigger", label])
        for value, count in sorted(values.items()):
            family.add_metric([trigger, value], count)
        return family

    def histogram(name: str, text: str, values: Histogram) -> "Metric":
        family = HistogramMetricFamily(f"tailrace_trigger_{name}", text, labels=["trigger"])
        family.add_metric([trigger], values.buckets(), values.sum)
        return family

    def gauge(name: str, text: str, value: float) -> "Metric":
        family = GaugeMetricFamily(f"tailrace_trigger_{name}", text, labels=["trigger"])
        family.add_metric([trigger], value)
        return family

    def gauge_of_shards(name: str, text: str, values: Mapping[int, float]) -> "Metric":
        family = GaugeMetricFamily(f"tailrace_trigger_{name}", text, labels=["trigger", "shard"])
        for shard, value in sorted(values.items()):
            family.add_metric([trigger, str(shard)], value)
        return family

    shards = gauges.shards
    yield counter("events", "Events that were handled.", metrics.events)
    yield counter_by("failures", "Failed attempts to handle events, by kind.", "kind", metrics.failures)
    yield counter("retries", "Further attempts to handle failed events.", metrics.retries)
    yield counter("dead_letters", "Events that were sent to the topic of dead letters.", metrics.dead_letters)
    yield counter("skipped_events", "Events that were given up without a dead letter.", metrics.skipped)
    yield counter("outputs", "Records that handlers emitted and brokers acknowledged.", metrics.outputs)
    yield counter("read_bytes", "Bytes of the batches that were read.", metrics.read_bytes)
    yield counter("commits", "Marks that were committed.", metrics.commits)
    yield counter("failed_commits", "Commits of marks that failed and are retried.", metrics.failed_commits)
    yield counter("fenced_commits", "Commits refused because another replica owns the shard.", metrics.fenced_commits)
    yield counter("lost_transactions", "Transactions whose records are handled again.", metrics.lost_transactions)
    yield counter_by("rebalances", "Changes of the replica's shards, by cause.", "cause", metrics.rebalances)
    yield histogram("queue_seconds", "Time that events waited for a worker.", metrics.queue_seconds)
    yield histogram("handler_seconds", "Time that the handler took for an event.", metrics.handler_seconds)
    yield gauge("workers", "Worker processes.", gauges.workers)
    yield gauge("workers_busy", "Workers that are handling events.", gauges.workers_busy)
    yield gauge_of_shards(
        "lag_records",
        "Committed records of a shard that are not handled.",
        {k: v.lag_records for k, v in shards.items()},
    )
    yield gauge_of_shards(
        "lag_seconds", "Age of the first record that is not handled.", {k: v.lag_seconds for k, v in shards.items()}
    )
    yield gauge_of_shards(
        "open_events",
        "Events that wait for an explicit acknowledgement.",
        {k: v.open_events for k, v in shards.items()},
    )
