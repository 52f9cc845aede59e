"""The metrics of an attachment as Prometheus families: lag by partition, counters, and how old the figures are."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from .lag_rows import LagRow

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LABELS = ("query", "group", "topic", "partition")


class LagCounters(Struct):
    """What an attachment has counted."""

    looks: int = 0
    commits: int = 0
    failed_commits: int = 0
    failed_looks: int = 0
    failed_measurements: int = 0


class LagFigures(Struct, frozen=True):
    """An attachment at the moment of a scrape."""

    rows: Iterable[LagRow] = ()
    age_seconds: float | None = None
    """How long ago the last complete measurement began; None before the first."""


def lag_families(counters: LagCounters, figures: LagFigures) -> Iterator["Metric"]:
    """Yields the metrics of an attachment."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    def counter(name: str, text: str, value: int) -> "Metric":
        return CounterMetricFamily(f"tailrace_pipeline_{name}", text, value=value)

    def gauge(name: str, text: str, value_of: Callable[[LagRow], float | None]) -> "Metric":
        family = GaugeMetricFamily(f"tailrace_pipeline_{name}", text, labels=_LABELS)
        for row in rows:
            if (value := value_of(row)) is not None:
                family.add_metric([row.query, row.group, row.partition.topic, str(row.partition.number)], value)
        return family

    rows = list(figures.rows)
    yield gauge("lag_records", "Records of a partition that the query has not read.", lambda row: row.lag_records)
    yield gauge("lag_seconds", "Age of the first record that the query has not read.", lambda row: row.lag_seconds)
    yield gauge("position", "The offset that the query reads next.", lambda row: row.position)
    active = GaugeMetricFamily("tailrace_pipeline_query_active", "1 while the query runs.", labels=["query", "group"])
    for (query, group), is_active in sorted({(row.query, row.group): row.is_active for row in rows}.items()):
        active.add_metric([query, group], float(is_active))
    yield active
    age = GaugeMetricFamily("tailrace_pipeline_lag_age_seconds", "Time since the lag was last measured.")
    if figures.age_seconds is not None:
        age.add_metric([], figures.age_seconds)
    yield age
    yield counter("commits", "Offsets that were committed for queries, by partition.", counters.commits)
    yield counter("failed_commits", "Attempts to commit that failed or were refused.", counters.failed_commits)
    yield counter("failed_looks", "Attempts to ask Spark for progress that failed.", counters.failed_looks)
    yield counter("failed_measurements", "Attempts to measure the lag that failed.", counters.failed_measurements)
