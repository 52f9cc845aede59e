"""What an SPU counts, as plain numbers: adding one costs next to nothing, and a scrape turns them into text."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tailrace.protocol.apis import API_TABLE, ApiKey

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LATENCY_BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
CLIENTS_MAX = 100
"""Client names come from outside: past this many, the rest is counted together, so that nobody can grow the broker."""
UNKNOWN_VERSION = -1
"""So do versions: ApiVersions is answered in every one, and those we do not know are one row."""


class RequestCount:
    """Requests of one API, version and client software."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(LATENCY_BUCKETS_SECONDS) + 1)


class BrokerMetrics:
    def __init__(self) -> None:
        self.requests: dict[tuple[int, int, str], RequestCount] = {}
        self.received_bytes = 0
        self.sent_bytes = 0
        self.produced_bytes = 0
        self.produced_batches = 0
        self.fetched_bytes = 0
        self.refused_requests = 0
        self.failed_requests = 0
        self.refused_connections = 0
        self.accepted_connections = 0
        self.open_connections = 0
        self.idle_closed_connections = 0
        self.produce_errors = 0
        self.flushes = 0
        self.flush_seconds = 0.0
        self.recovered_replicas = 0
        self.rebuilt_indexes = 0
        self.truncated_bytes = 0
        self._clients: set[str] = set()

    def on_responses(self, api_key: int, api_version: int, client: str, count: int, seconds: float) -> None:
        """So many requests were answered, each after so many seconds."""
        key = (api_key, api_version, client)
        counted = self.requests.get(key)
        if counted is None:
            counted = self._new_row(key)
        counted.count += count
        counted.seconds += count * seconds
        counted.buckets[bisect_left(LATENCY_BUCKETS_SECONDS, seconds)] += count

    def _new_row(self, key: tuple[int, int, str]) -> RequestCount:
        api_key, version, client = key
        api = API_TABLE.get(api_key)
        if api is None or not api.serves(version):
            version = UNKNOWN_VERSION
        if client not in self._clients:
            if len(self._clients) >= CLIENTS_MAX:
                client = "other"
            self._clients.add(client)
        return self.requests.setdefault((api_key, version, client), RequestCount())


class Gauges:
    """What is read off the SPU at a scrape rather than counted: one row per partition, and totals."""

    def __init__(self, partitions: Iterable["PartitionGauges"], unsynced_seconds_max: float) -> None:
        self.partitions = list(partitions)
        self.unsynced_seconds_max = unsynced_seconds_max


class PartitionGauges:
    __slots__ = ("high_watermark", "log_end", "log_start", "partition", "size_bytes", "topic", "unsynced_records")

    def __init__(
        self,
        topic: str,
        partition: int,
        log_start: int,
        log_end: int,
        high_watermark: int,
        size_bytes: int,
        unsynced_records: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.log_start = log_start
        self.log_end = log_end
        self.high_watermark = high_watermark
        self.size_bytes = size_bytes
        self.unsynced_records = unsynced_records


def render(metrics: BrokerMetrics, gauges: Gauges) -> bytes:
    """The text a Prometheus server scrapes."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest

    class Scrape:
        def collect(self) -> Iterator["Metric"]:
            return _families(metrics, gauges)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape())
    return generate_latest(registry)


_COUNTERS = (
    ("received_bytes", "Bytes received from clients."),
    ("sent_bytes", "Bytes sent to clients."),
    ("produced_bytes", "Bytes of record batches appended for producers."),
    ("produced_batches", "Record batches appended for producers."),
    ("fetched_bytes", "Bytes of record batches handed to consumers."),
    ("produce_errors", "Partitions of produce requests that were answered with an error."),
    ("refused_requests", "Requests that broke the protocol; the connection was closed."),
    ("failed_requests", "Requests that ended in an error of ours; the connection was closed."),
    ("accepted_connections", "Client connections accepted."),
    ("refused_connections", "Client connections refused because max.connections was reached."),
    ("idle_closed_connections", "Client connections closed because they were idle for too long."),
    ("flushes", "Syncs of logs to the disk."),
    ("flush_seconds", "Seconds spent in syncs of logs to the disk."),
    ("recovered_replicas", "Replicas whose log was examined after an unclean stop."),
    ("rebuilt_indexes", "Index files rebuilt from their logs."),
    ("truncated_bytes", "Bytes cut from torn ends of logs."),
)
_PARTITION_GAUGES = (
    ("log_start", "tailrace_log_start_offset", "First offset of the log."),
    ("log_end", "tailrace_log_end_offset", "Next offset of the log."),
    ("high_watermark", "tailrace_high_watermark", "Next offset that consumers cannot read yet."),
    ("size_bytes", "tailrace_log_size_bytes", "Size of the log's segments."),
    ("unsynced_records", "tailrace_log_unsynced_records", "Records a power failure may take: not on the disk yet."),
)


def _families(metrics: BrokerMetrics, gauges: Gauges) -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for attribute, text in _COUNTERS:
        yield CounterMetricFamily(f"tailrace_{attribute}", text, value=getattr(metrics, attribute))
    yield GaugeMetricFamily("tailrace_connections", "Open client connections.", value=metrics.open_connections)
    yield GaugeMetricFamily(
        "tailrace_flush_lag_seconds",
        "Age of the oldest append that is not on the disk yet.",
        value=gauges.unsynced_seconds_max,
    )
    requests = HistogramMetricFamily(
        "tailrace_request_seconds",
        "Time from a request's arrival to its response, by API, version and client software.",
        labels=["api", "version", "client"],
    )
    for (api_key, version, client), counted in sorted(metrics.requests.items()):
        buckets: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip((*LATENCY_BUCKETS_SECONDS, float("inf")), counted.buckets, strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), below))
        labels = [_api_name(api_key), str(version), client]
        requests.add_metric(labels, buckets=buckets, sum_value=counted.seconds)
    yield requests
    for attribute, name, text in _PARTITION_GAUGES:
        family = GaugeMetricFamily(name, text, labels=["topic", "partition"])
        for partition in gauges.partitions:
            family.add_metric([partition.topic, str(partition.partition)], getattr(partition, attribute))
        yield family


def _api_name(api_key: int) -> str:
    try:
        return ApiKey(api_key).name.lower()
    except ValueError:
        return str(api_key)
