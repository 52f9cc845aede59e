from math import inf

from scrapes import Sample, sample, samples

from tailrace.broker.descriptions.replica_counts import PartitionGauges, ReplicaCounts
from tailrace.broker.descriptions.spu_metrics import SpuGauges, render_spu_metrics, spu_series
from tailrace.broker.peers.peer_gauges import PeerGauges, PeerTraffic
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.ids import SpuId


def _scrape(metrics: BrokerMetrics, gauges: SpuGauges | None = None) -> dict[Sample, float]:
    gauges = gauges or SpuGauges([], 0.0)
    text = render_spu_metrics(metrics, gauges).decode() + "".join(spu_series(gauges))
    return samples(text)


def test_what_is_counted_is_scraped() -> None:
    metrics = BrokerMetrics()
    metrics.server.sent_bytes = 12
    metrics.flush_seconds = 0.5
    metrics.lookups.index_lookups, metrics.lookups.index_lookup_bytes = 3, 4
    scraped = _scrape(
        metrics, SpuGauges([PartitionGauges("t", 4, 1, 9, 8, 3, 777, 2, {SpuId(3): 5, SpuId(2): 0})], 2.5)
    )
    assert scraped[sample("tailrace_sent_bytes_total")] == 12
    assert scraped[sample("tailrace_flush_seconds_total")] == 0.5
    assert scraped[sample("tailrace_index_lookups_total")] == 3
    assert scraped[sample("tailrace_index_lookup_bytes_total")] == 4
    assert scraped[sample("tailrace_flush_lag_seconds")] == 2.5
    here = {"topic": "t", "partition": "4"}
    assert scraped[sample("tailrace_log_start_offset", **here)] == 1
    assert scraped[sample("tailrace_log_end_offset", **here)] == 9
    assert scraped[sample("tailrace_high_watermark", **here)] == 8
    assert scraped[sample("tailrace_stable_lag_records", **here)] == 3
    assert scraped[sample("tailrace_log_size_bytes", **here)] == 777
    assert scraped[sample("tailrace_log_unsynced_records", **here)] == 2
    assert scraped[sample("tailrace_replica_lag_records", follower="3", **here)] == 5
    assert scraped[sample("tailrace_replica_lag_records", follower="2", **here)] == 0


def test_the_limit_of_an_spu_without_one_is_infinite() -> None:
    scraped = _scrape(BrokerMetrics(), SpuGauges([], 0.0, used_bytes=7, shelves=2, shelved_bytes=5))
    assert scraped[sample("tailrace_storage_used_bytes")] == 7
    assert (scraped[sample("tailrace_shelves")], scraped[sample("tailrace_shelved_bytes")]) == (2, 5)
    assert scraped[sample("tailrace_storage_limit_bytes")] == inf
    scraped = _scrape(BrokerMetrics(), SpuGauges([], 0.0, used_bytes=7, size_bytes=9))
    assert scraped[sample("tailrace_storage_limit_bytes")] == 9


def test_how_replicas_stand_is_scraped() -> None:
    counts = ReplicaCounts(9, 8, under_replicated=7, under_min_insync=6, offline=5, follower_lag_records=4)
    scraped = _scrape(BrokerMetrics(), SpuGauges([], 0.0, counts=counts))
    assert scraped[sample("tailrace_partitions")] == 9
    assert scraped[sample("tailrace_leader_partitions")] == 8
    assert scraped[sample("tailrace_under_replicated_partitions")] == 7
    assert scraped[sample("tailrace_under_min_insync_partitions")] == 6
    assert scraped[sample("tailrace_offline_replicas")] == 5
    assert scraped[sample("tailrace_follower_lag_records")] == 4


def test_links_to_other_spus_are_scraped() -> None:
    peers = [
        PeerGauges(SpuId(2), PeerTraffic(1, 200, 3, 400, 5), None, 5.5),
        PeerGauges(SpuId(3), PeerTraffic(), 6.5, 7.5),
        PeerGauges(SpuId(4), PeerTraffic(), None, None),
    ]
    scraped = _scrape(BrokerMetrics(), SpuGauges([], 0.0, peers=peers))
    assert scraped[sample("tailrace_peer_links")] == 3
    assert scraped[sample("tailrace_peer_link_age_seconds", spu="2", role="follower")] == 5.5
    assert scraped[sample("tailrace_peer_link_age_seconds", spu="3", role="leader")] == 6.5
    assert sample("tailrace_peer_link_age_seconds", spu="2", role="leader") not in scraped
    names = ("out_messages", "out_bytes", "in_messages", "in_bytes")
    assert [scraped[sample(f"tailrace_replicated_{name}_total", spu="2")] for name in names] == [1, 200, 3, 400]
    assert scraped[sample("tailrace_peer_dialled_links_total", spu="2")] == 5


def test_every_counter_is_scraped_before_anything_has_happened() -> None:
    """A dashboard must be able to tell zero from unknown."""
    counters = {name for name, value in vars(BrokerMetrics()).items() if isinstance(value, int | float)}
    scraped = {name for name, _ in _scrape(BrokerMetrics())}
    missing = {name for name in counters if f"tailrace_{name}_total" not in scraped}
    assert missing == set()


def test_names_that_prometheus_must_quote_are_quoted() -> None:
    gauges = SpuGauges([PartitionGauges('a"b\\c\n', 0, 0, 0, 0, 0, 0, 0)], 0.0)
    assert sample("tailrace_log_end_offset", topic='a"b\\c\n', partition="0") in _scrape(BrokerMetrics(), gauges)
