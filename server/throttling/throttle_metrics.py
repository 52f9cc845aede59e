"""Counts how often and for how long clients were throttled, for a bounded number of clients."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace.security.quotas.quota_levels import Scope
from tailrace.security.quotas.quota_meters import OTHER

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SCOPES_MAX = 100
"""The number of clients that are counted separately for each quota; the others share one row."""


class ThrottleMetrics:
    """The counts of one server since its start."""

    def __init__(self) -> None:
        self._throttled: dict[tuple[str, Scope], tuple[int, float]] = {}
        """How many responses were throttled, and for how many seconds, by quota and client."""
        self.delayed_connections = 0
        self.throttled_connections = 0
        self.muted_connections = 0

    def on_throttled(self, quota: str, scope: Scope, throttle_ms: int) -> None:
        """Counts a response that told a client to wait."""
        key = quota, scope
        if key not in self._throttled and len(self._throttled) >= SCOPES_MAX:
            key = quota, OTHER
        count, seconds = self._throttled.get(key, (0, 0.0))
        self._throttled[key] = count + 1, seconds + throttle_ms / 1000

    def families(self) -> Iterator["Metric"]:
        """Yields the metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ["quota", "user", "client_id"]
        responses = CounterMetricFamily(
            "tailrace_throttled_responses",
            "Responses that told a client to wait because it had used up a quota; empty labels stand for all.",
            labels=labels,
        )
        seconds = CounterMetricFamily(
            "tailrace_throttle_seconds", "The time that these responses told clients to wait.", labels=labels
        )
        for (quota, scope), (count, total) in sorted(self._throttled.items()):
            responses.add_metric([quota, *scope], count)
            seconds.add_metric([quota, *scope], total)
        yield responses
        yield seconds
        yield CounterMetricFamily(
            "tailrace_throttled_connections",
            "Connections refused after a delay because of their address's quota of new connections.",
            value=self.throttled_connections,
        )
        yield CounterMetricFamily(
            "tailrace_delayed_connections",
            "Connections that waited because of max.connection.creation.rate.",
            value=self.delayed_connections,
        )
        yield GaugeMetricFamily(
            "tailrace_muted_connections",
            "Connections that are not read because their clients are throttled.",
            value=self.muted_connections,
        )
