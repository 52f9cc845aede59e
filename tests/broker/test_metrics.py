from math import inf

from prometheus_client.parser import text_string_to_metric_families

from tailrace.broker.metrics import BrokerMetrics, Gauges, PartitionGauges, render
from tailrace.broker.replica_counts import ReplicaCounts

Sample = tuple[str, frozenset[tuple[str, str]]]


def _scrape(metrics: BrokerMetrics, gauges: Gauges | None = None) -> dict[Sample, float]:
    text = render(metrics, gauges or Gauges([], 0.0)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _plain(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def test_what_is_counted_is_scraped() -> None:
    metrics = BrokerMetrics()
    metrics.server.sent_bytes = 12
    metrics.flush_seconds = 0.5
    scraped = _scrape(metrics, Gauges([PartitionGauges("t", 4, 1, 9, 8, 777, 2)], 2.5))
    assert scraped[_plain("tailrace_sent_bytes_total")] == 12
    assert scraped[_plain("tailrace_flush_seconds_total")] == 0.5
    assert scraped[_plain("tailrace_flush_lag_seconds")] == 2.5
    here = {"topic": "t", "partition": "4"}
    assert scraped[_plain("tailrace_log_start_offset", **here)] == 1
    assert scraped[_plain("tailrace_log_end_offset", **here)] == 9
    assert scraped[_plain("tailrace_high_watermark", **here)] == 8
    assert scraped[_plain("tailrace_log_size_bytes", **here)] == 777
    assert scraped[_plain("tailrace_log_unsynced_records", **here)] == 2


def test_the_limit_of_an_spu_without_one_is_infinite() -> None:
    scraped = _scrape(BrokerMetrics(), Gauges([], 0.0, used_bytes=7))
    assert scraped[_plain("tailrace_storage_used_bytes")] == 7
    assert scraped[_plain("tailrace_storage_limit_bytes")] == inf
    scraped = _scrape(BrokerMetrics(), Gauges([], 0.0, used_bytes=7, size_bytes=9))
    assert scraped[_plain("tailrace_storage_limit_bytes")] == 9


def test_how_replicas_stand_is_scraped() -> None:
    counts = ReplicaCounts(9, 8, under_replicated=7, under_min_insync=6, offline=5, follower_lag_records=4)
    scraped = _scrape(BrokerMetrics(), Gauges([], 0.0, counts=counts))
    assert scraped[_plain("tailrace_partitions")] == 9
    assert scraped[_plain("tailrace_leader_partitions")] == 8
    assert scraped[_plain("tailrace_under_replicated_partitions")] == 7
    assert scraped[_plain("tailrace_under_min_insync_partitions")] == 6
    assert scraped[_plain("tailrace_offline_replicas")] == 5
    assert scraped[_plain("tailrace_follower_lag_records")] == 4


def test_every_counter_is_scraped_before_anything_has_happened() -> None:
    """A dashboard must be able to tell zero from unknown."""
    counters = {name for name, value in vars(BrokerMetrics()).items() if isinstance(value, int | float)}
    scraped = {name for name, _ in _scrape(BrokerMetrics())}
    missing = {name for name in counters if f"tailrace_{name}_total" not in scraped}
    assert missing == set()


def test_names_that_prometheus_must_quote_are_quoted() -> None:
    gauges = Gauges([PartitionGauges('a"b\\c\n', 0, 0, 0, 0, 0, 0)], 0.0)
    assert _plain("tailrace_log_end_offset", topic='a"b\\c\n', partition="0") in _scrape(BrokerMetrics(), gauges)
