import resource
from pathlib import Path

import pytest
from scrapes import Sample, sample, samples

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.server.metric_text import render
from tailrace.server.server_metrics import CLIENTS_MAX, LATENCY_BUCKETS_SECONDS, ServerMetrics


def _metrics() -> ServerMetrics:
    return ServerMetrics(API_TABLE)


def _respond(metrics: ServerMetrics, *, seconds: float = 0.0, client: str = "librdkafka", version: int = 9) -> None:
    metrics.on_responses(ApiKey.PRODUCE, version, client, 1, seconds)


def _scrape(metrics: ServerMetrics) -> dict[Sample, float]:
    text = render(metrics.families).decode()
    return samples(text)


def test_counts_are_scraped() -> None:
    metrics = _metrics()
    metrics.sent_bytes = 12
    metrics.open_connections = 3
    metrics.sent_records.uncopied_record_bytes = 4
    metrics.sent_records.copied_record_bytes = 5
    scraped = _scrape(metrics)
    assert scraped[sample("tailrace_sent_bytes_total")] == 12
    assert scraped[sample("tailrace_connections")] == 3
    assert scraped[sample("tailrace_uncopied_record_bytes_total")] == 4
    assert scraped[sample("tailrace_copied_record_bytes_total")] == 5


def test_every_counter_is_scraped_before_anything_has_happened() -> None:
    """Dashboards must be able to distinguish zero from unknown."""
    counters = {name for name, value in vars(_metrics()).items() if isinstance(value, int | float)}
    scraped = {name for name, _ in _scrape(_metrics())}
    missing = {name for name in counters if f"tailrace_{name}_total" not in scraped}
    assert missing == {"open_connections"}, "which is a gauge: tailrace_connections"


def test_requests_are_counted_by_api_version_and_client_with_their_latency() -> None:
    metrics = _metrics()
    _respond(metrics, seconds=0.0003)
    _respond(metrics, seconds=0.3)
    _respond(metrics, seconds=60)
    _respond(metrics, client="kafka-python")
    scraped = _scrape(metrics)
    row = {"api": "produce", "version": "9", "client": "librdkafka"}
    assert scraped[sample("tailrace_request_seconds_count", **row)] == 3
    assert scraped[sample("tailrace_request_seconds_sum", **row)] == pytest.approx(60.3003)
    assert scraped[sample("tailrace_request_seconds_bucket", **row, le="0.00025")] == 0
    assert scraped[sample("tailrace_request_seconds_bucket", **row, le="0.0005")] == 1
    assert scraped[sample("tailrace_request_seconds_bucket", **row, le="0.5")] == 2
    assert scraped[sample("tailrace_request_seconds_bucket", **row, le="5.0")] == 2
    assert scraped[sample("tailrace_request_seconds_bucket", **row, le="+Inf")] == 3
    assert scraped[sample("tailrace_request_seconds_count", **(row | {"client": "kafka-python"}))] == 1


@pytest.mark.parametrize("bound", LATENCY_BUCKETS_SECONDS[:3])
def test_a_bucket_holds_its_own_bound(bound: float) -> None:
    metrics = _metrics()
    context_row = metrics.requests
    _respond(metrics, seconds=0)
    (counted,) = context_row.values()
    assert counted.buckets[0] == 1
    assert _scrape(metrics)[
        sample("tailrace_request_seconds_bucket", api="produce", version="9", client="librdkafka", le=str(bound))
    ]


def test_clients_cannot_grow_the_metrics_by_their_names_or_versions() -> None:
    metrics = _metrics()
    for number in range(3 * CLIENTS_MAX):
        for _ in range(2):
            _respond(metrics, client=f"client-{number}", version=3 + number % 2)
        _respond(metrics, client="client-0", version=1000 + number)
    assert len(metrics.requests) <= 2 * (CLIENTS_MAX + 1) + 1
    assert sum(counted.count for counted in metrics.requests.values()) == 9 * CLIENTS_MAX, "and none goes uncounted"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system tells nothing of processes there")
def test_a_scrape_has_the_resources_of_the_process() -> None:
    """The metrics have the usual names, which dashboards know."""
    scraped = _scrape(_metrics())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 10e6 < scraped[sample("process_resident_memory_bytes")] <= most
    assert scraped[sample("process_open_fds")] >= 3
    assert scraped[sample("process_cpu_seconds_total")] > 0
