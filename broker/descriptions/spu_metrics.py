"""What an SPU counts, as plain numbers, beside what its server counts of clients."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from tailrace.broker.groups.hosting import group_metrics
from tailrace.broker.groups.hosting.group_gauges import GroupGauges
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.server import metric_text
from tailrace.server.metric_text import counters, gauge, labels

from .replica_counts import PartitionGauges, ReplicaCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tailrace.broker.peers.peer_gauges import PeerGauges


class Gauges(Struct):
    """What is read off the SPU at a scrape rather than counted."""

    partitions: Sequence[PartitionGauges]
    unsynced_seconds_max: float
    used_bytes: int = 0
    size_bytes: int | None = None
    """How much may be stored; None: as much as the disk takes."""
    shelves: int = 0
    """That are kept here."""
    shelved_bytes: int = 0
    counts: ReplicaCounts | None = None
    peers: "Sequence[PeerGauges]" = ()
    groups: GroupGauges = field(default_factory=GroupGauges)


def render(metrics: BrokerMetrics, gauges: Gauges) -> bytes:
    """The text a Prometheus server scrapes, but for metrics with many series."""
    return metric_text.render(partial(_families, metrics, gauges))


def pieces(gauges: Gauges) -> Iterator[str]:
    """The text of those, which there may be for every partition."""
    for attribute, name, text in _PARTITION_GAUGES:
        value_of = attrgetter(attribute)
        yield from gauge(name, text, ((_labels_of(each), value_of(each)) for each in gauges.partitions))
    yield from gauge("tailrace_replica_lag_records", "Records that a follower lacks of its leader here.", _lags(gauges))
    yield from group_metrics.pieces(gauges.groups)


def _lags(gauges: Gauges) -> Iterator[tuple[str, int]]:
    for each in gauges.partitions:
        for follower, lag_records in each.follower_lags.items():
            yield labels(follower=follower, partition=each.partition, topic=each.topic), lag_records


def _labels_of(gauges: PartitionGauges) -> str:
    return labels(partition=gauges.partition, topic=gauges.topic)


_COUNTERS = (
    ("produced_bytes", "Bytes of record batches appended for producers."),
    ("produced_batches", "Record batches appended for producers."),
    ("fetched_bytes", "Bytes of record batches handed to consumers."),
    ("produce_errors", "Partitions of produce requests that were answered with an error."),
    ("flushes", "Syncs of logs to the disk."),
    ("flush_seconds", "Seconds spent in syncs of logs to the disk."),
    ("recovered_replicas", "Replicas whose log was examined after an unclean stop."),
    ("rebuilt_indexes", "Index files rebuilt from their logs."),
    ("truncated_bytes", "Bytes cut from torn ends of logs."),
    ("live_replica_shrinks", "Times that a replica left the live replicas of a partition led here."),
    ("live_replica_expands", "Times that a replica entered the live replicas of a partition led here."),
    ("live_replica_updates", "Partitions led here whose live replicas were told to the Streaming Controller."),
    ("scrubbed_bytes", "Bytes of sealed segments read again, to see whether they are what they were."),
    ("damaged_batches", "Batches found damaged while scrubbing; those that stay so are found in each pass."),
    ("mended_batches", "Damaged batches restored from another replica."),
    ("copied_bytes", "Bytes of record batches copied from followers, for replicas here that lacked a lot."),
    ("read_through_bytes", "Bytes of record batches read from shelves elsewhere, for clients of leaders here."),
    ("caught_up_bytes", "Bytes of record batches that were committed when followers that lacked them were sent them."),
    ("shelf_filled_bytes", "Bytes of record batches copied from leaders, for shelves that are kept here."),
    ("shelf_read_bytes", "Bytes of record batches read from shelves that are kept here."),
)
_LOOKUPS = (
    ("index_lookups", "Times that a batch was looked for in a log by way of its index."),
    ("index_lookup_bytes", "Bytes read from logs to find batches in them."),
)
_COUNT_GAUGES = (
    ("partitions", "tailrace_partitions", "Partitions of which there is a replica here."),
    ("leaders", "tailrace_leader_partitions", "Partitions led here."),
    (
        "under_replicated",
        "tailrace_under_replicated_partitions",
        "Partitions led here with fewer live replicas than replicas.",
    ),
    (
        "under_min_insync",
        "tailrace_under_min_insync_partitions",
        "Partitions led here with too few live replicas for acks=all.",
    ),
    ("offline", "tailrace_offline_replicas", "Replicas here whose storage failed."),
    (
        "follower_lag_records",
        "tailrace_follower_lag_records",
        "How far the follower is behind that is farthest behind a leader here.",
    ),
)
_PARTITION_GAUGES = (
    ("log_start", "tailrace_log_start_offset", "First offset of the partition."),
    ("log_end", "tailrace_log_end_offset", "Next offset of the log."),
    ("high_watermark", "tailrace_high_watermark", "Next offset that consumers cannot read yet."),
    ("size_bytes", "tailrace_log_size_bytes", "Size of the log's segments."),
    ("unsynced_records", "tailrace_log_unsynced_records", "Records a power failure may take: not on the disk yet."),
)
_PEER_COUNTERS = (
    ("sent_messages", "tailrace_replicated_out_messages", "Messages with record batches sent to another SPU."),
    ("sent_bytes", "tailrace_replicated_out_bytes", "Bytes of record batches sent to another SPU."),
    ("received_messages", "tailrace_replicated_in_messages", "Messages with record batches received from another SPU."),
    ("received_bytes", "tailrace_replicated_in_bytes", "Bytes of record batches received from another SPU."),
    ("dialled_links", "tailrace_peer_dialled_links", "Links made to another SPU, to follow it."),
)


def _families(metrics: BrokerMetrics, gauges: Gauges) -> Iterator["Metric"]:
    from prometheus_client.core import GaugeMetricFamily

    yield from metrics.server.families()
    yield from counters(metrics, _COUNTERS)
    yield from counters(metrics.lookups, _LOOKUPS)
    yield GaugeMetricFamily(
        "tailrace_flush_lag_seconds",
        "Age of the oldest append that is not on the disk yet.",
        value=gauges.unsynced_seconds_max,
    )
    yield GaugeMetricFamily(
        "tailrace_storage_used_bytes", "Size of all logs, against which the limit is held.", value=gauges.used_bytes
    )
    yield GaugeMetricFamily(
        "tailrace_storage_limit_bytes",
        "Size of all logs at which producers are refused.",
        value=inf if gauges.size_bytes is None else gauges.size_bytes,
    )
    yield GaugeMetricFamily(
        "tailrace_shelves", "Shelves that are kept here, of partitions of other SPUs.", value=gauges.shelves
    )
    yield GaugeMetricFamily("tailrace_shelved_bytes", "Size of the logs of these shelves.", value=gauges.shelved_bytes)
    for attribute, name, text in _COUNT_GAUGES if gauges.counts is not None else ():
        yield GaugeMetricFamily(name, text, value=getattr(gauges.counts, attribute))
    yield from _peer_families(gauges.peers)
    yield from group_metrics.families(metrics.groups, gauges.groups)


def _peer_families(peers: "Sequence[PeerGauges]") -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for attribute, name, text in _PEER_COUNTERS:
        counter = CounterMetricFamily(name, text, labels=["spu"])
        for peer in peers:
            counter.add_metric([str(peer.spu)], getattr(peer.traffic, attribute))
        yield counter
    ages = GaugeMetricFamily(
        "tailrace_peer_link_age_seconds",
        "Age of a link to another SPU, which leads or follows on it.",
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
