from scrapes import sample, samples

from tailrace.security.quotas.quota_levels import Scope
from tailrace.server.metric_text import render
from tailrace.server.throttling.throttle_metrics import SCOPES_MAX, ThrottleMetrics


def test_throttled_responses_are_counted_by_quota_and_client() -> None:
    metrics = ThrottleMetrics()
    metrics.on_throttled("producer_byte_rate", Scope("alice", ""), 1500)
    metrics.on_throttled("producer_byte_rate", Scope("alice", ""), 500)
    metrics.muted_connections = 1
    scraped = samples(render(metrics.families).decode())
    labels = {"quota": "producer_byte_rate", "user": "alice", "client_id": ""}
    assert scraped[sample("tailrace_throttled_responses_total", **labels)] == 2
    assert scraped[sample("tailrace_throttle_seconds_total", **labels)] == 2
    assert scraped[sample("tailrace_muted_connections")] == 1
    assert scraped[sample("tailrace_throttled_connections_total")] == 0


def test_clients_beyond_the_bound_share_a_row() -> None:
    metrics = ThrottleMetrics()
    for number in range(SCOPES_MAX + 50):
        metrics.on_throttled("producer_byte_rate", Scope("", f"client {number}"), 1)
    text = render(metrics.families).decode()
    rows = [line for line in text.splitlines() if line.startswith("tailrace_throttled_responses_total{")]
    assert len(rows) == SCOPES_MAX + 1
    assert sum(float(row.rpartition(" ")[2]) for row in rows) == SCOPES_MAX + 50
