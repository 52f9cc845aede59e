"""The Prometheus metrics of an SPU, in addition to those of its server."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tailrace.broker.groups.hosting import group_metrics
from tailrace.broker.groups.hosting.group_metrics import GroupGauges
from tailrace.broker.replicas.append_samples import DELIVERY_BUCKETS_SECONDS
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.transactions.hosting.transaction_metrics import TransactionGauges, transaction_families
from tailrace.server import metric_text
from tailrace.server.metric_text import counters, cumulative, gauge, labels

from .replica_counts import PartitionGauges, ReplicaCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tailrace.broker.peers.peer_gauges import PeerGauges


class SpuGauges(Struct):
    """SpuGauges of an SPU, read at each scrape."""

    partitions: Sequence[PartitionGauges]
    unsynced_seconds_max: float
    used_bytes: int = 0
    size_bytes: int | None = None
    """The limit of the stored bytes, or None if the disk is the only limit."""
    shelves: int = 0
    """The number of shelves on this SPU."""
    shelved_bytes: int = 0
    counts: ReplicaCounts | None = None
    peers: "Sequence[PeerGauges]" = ()
    groups: GroupGauges = field(default_factory=GroupGauges)
    transactions: TransactionGauges = field(default_factory=TransactionGauges)


def render_spu_metrics(metrics: BrokerMetrics, gauges: SpuGauges) -> bytes:
    """Returns the text of the metrics with few series, in the format of Prometheus."""
    return metric_text.render(partial(_families, metrics, gauges))


def spu_series(gauges: SpuGauges) -> Iterator[str]:
    """Yields the text of the metrics with a series per partition or per group."""
    for attribute, name, text in _PARTITION_GAUGES:
        value_of = attrgetter(attribute)
        yield from gauge(name, text, ((_labels_of(each), value_of(each)) for each in gauges.partitions))
    yield from gauge("tailrace_replica_lag_records", "Records that a follower of this SPU lacks.", _lags(gauges))
    yield from group_metrics.group_series(gauges.groups)


def _lags(gauges: SpuGauges) -> Iterator[tuple[str, int]]:
    for each in gauges.partitions:
        for follower, lag_records in each.follower_lags.items():
            yield labels(follower=follower, partition=each.partition, topic=each.topic), lag_records


def _labels_of(gauges: PartitionGauges) -> str:
    return labels(partition=gauges.partition, topic=gauges.topic)


_COUNTERS = (
    ("produced_bytes", "Bytes of record batches appended for producers."),
    ("produced_batches", "Record batches appended for producers."),
    ("fetched_bytes", "Bytes of record batches sent to consumers."),
    ("produce_errors", "Partitions of produce requests that got an error."),
    ("flushes", "Syncs of logs to the disk."),
    ("flush_seconds", "Seconds spent in syncs of logs to the disk."),
    ("recovered_replicas", "Replicas whose log was examined after an unclean stop."),
    ("rebuilt_indexes", "Index files rebuilt from their logs."),
    ("truncated_bytes", "Bytes truncated from torn ends of logs."),
    ("live_replica_shrinks", "Times that a replica left the live replicas of a partition that this SPU leads."),
    ("live_replica_expands", "Times that a replica entered the live replicas of a partition that this SPU leads."),
    ("live_replica_updates", "Reports of the live replicas of a partition to the Streaming Controller."),
    ("scrubbed_bytes", "Bytes of sealed segments read to find corrupt batches."),
    ("damaged_batches", "Corrupt batches found by scrubbing. Batches that cannot be repaired count in each pass."),
    ("mended_batches", "Corrupt batches repaired from another replica."),
    ("copied_bytes", "Bytes of record batches copied from followers by replicas with a large lag."),
    ("read_through_bytes", "Bytes of record batches read from shelves on other SPUs, for clients of this SPU."),
    ("caught_up_bytes", "Bytes of committed record batches sent to followers that lacked them."),
    ("shelf_filled_bytes", "Bytes of record batches copied from leaders to shelves on this SPU."),
    ("shelf_read_bytes", "Bytes of record batches read from shelves on this SPU."),
)
_LOOKUPS = (
    ("index_lookups", "Times that a batch was looked up in the index of a log."),
    ("index_lookup_bytes", "Bytes read from logs to find batches in them."),
)
_COUNT_GAUGES = (
    ("partitions", "tailrace_partitions", "Partitions with a replica on this SPU."),
    ("leaders", "tailrace_leader_partitions", "Partitions that this SPU leads."),
    (
        "under_replicated",
        "tailrace_under_replicated_partitions",
        "Led partitions with fewer live replicas than replicas.",
    ),
    (
        "under_min_insync",
        "tailrace_under_min_insync_partitions",
        "Led partitions with too few live replicas for acks=all.",
    ),
    ("offline", "tailrace_offline_replicas", "Replicas on this SPU whose storage failed."),
    (
        "follower_lag_records",
        "tailrace_follower_lag_records",
        "Largest lag of a follower of this SPU, in records.",
    ),
)
_PARTITION_GAUGES = (
    ("log_start", "tailrace_log_start_offset", "First offset of the partition."),
    ("log_end", "tailrace_log_end_offset", "Next offset of the log."),
    ("high_watermark", "tailrace_high_watermark", "First offset that consumers cannot read yet."),
    (
        "stable_lag_records",
        "tailrace_stable_lag_records",
        "Records that consumers of committed records cannot read yet, because a transaction is open.",
    ),
    ("size_bytes", "tailrace_log_size_bytes", "Size of the log's segments."),
    (
        "unsynced_records",
        "tailrace_log_unsynced_records",
        "Records that are not synced to the disk, which a power failure may lose.",
    ),
)
_PEER_COUNTERS = (
    ("sent_messages", "tailrace_replicated_out_messages", "Messages with record batches sent to another SPU."),
    ("sent_bytes", "tailrace_replicated_out_bytes", "Bytes of record batches sent to another SPU."),
    ("received_messages", "tailrace_replicated_in_messages", "Messages with record batches received from another SPU."),
    ("received_bytes", "tailrace_replicated_in_bytes", "Bytes of record batches received from another SPU."),
    ("dialled_links", "tailrace_peer_dialled_links", "Links dialled to another SPU in order to follow it."),
)


def _families(metrics: BrokerMetrics, gauges: SpuGauges) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

    yield from metrics.server.families()
    yield from counters(metrics, _COUNTERS)
    yield from counters(metrics.lookups, _LOOKUPS)
    deliveries = HistogramMetricFamily(
        "tailrace_produce_to_consume_seconds",
        "Time from the append of a sampled record to its being sent to a consumer.",
    )
    buckets = cumulative(DELIVERY_BUCKETS_SECONDS, metrics.deliveries.buckets)
    deliveries.add_metric([], buckets=buckets, sum_value=metrics.deliveries.seconds)
    yield deliveries
    yield GaugeMetricFamily(
        "tailrace_flush_lag_seconds",
        "Age of the oldest append that is not synced to the disk.",
        value=gauges.unsynced_seconds_max,
    )
    yield GaugeMetricFamily(
        "tailrace_storage_used_bytes", "Size of all logs, which the storage limit bounds.", value=gauges.used_bytes
    )
    yield GaugeMetricFamily(
        "tailrace_storage_limit_bytes",
        "Size of all logs at which producers are refused.",
        value=inf if gauges.size_bytes is None else gauges.size_bytes,
    )
    yield GaugeMetricFamily(
        "tailrace_shelves", "Shelves on this SPU, for partitions of other SPUs.", value=gauges.shelves
    )
    yield GaugeMetricFamily("tailrace_shelved_bytes", "Size of the logs of these shelves.", value=gauges.shelved_bytes)
    for attribute, name, text in _COUNT_GAUGES if gauges.counts is not None else ():
        yield GaugeMetricFamily(name, text, value=getattr(gauges.counts, attribute))
    yield from _peer_families(gauges.peers)
    yield from group_metrics.group_families(metrics.groups, gauges.groups)
    yield from transaction_families(metrics.transactions, gauges.transactions)


def _peer_families(peers: "Sequence[PeerGauges]") -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for attribute, name, text in _PEER_COUNTERS:
        counter = CounterMetricFamily(name, text, labels=["spu"])
        for peer in peers:
            counter.add_metric([str(peer.spu)], getattr(peer.traffic, attribute))
        yield counter
    ages = GaugeMetricFamily(
        "tailrace_peer_link_age_seconds",
        "Age of a link to another SPU, by the role of that SPU.",
        labels=["spu", "role"],
    )
    links = 0
    for peer in peers:
        for role, seconds in (("leader", peer.seconds_as_leader), ("follower", peer.seconds_as_follower)):
            if seconds is not None:
                links += 1
                ages.add_metric([str(peer.spu), role], seconds)
    yield ages
    yield GaugeMetricFamily("tailrace_peer_links", "Links to other SPUs.", value=links)
