"""Counts the traffic of a server's clients.

The counts are plain numbers, because requests update them. Only a scrape turns them into metrics.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tailrace.protocol.apis import Api

from .metric_text import counters, cumulative
from .outbox import SentRecords
from .throttling.throttle_metrics import ThrottleMetrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LATENCY_BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
CLIENTS_MAX = 100
"""The number of client names that are counted separately; the others share one row.

Clients choose their names, so without a bound they could make the metrics grow.
"""
UNKNOWN_VERSION = -1
"""The version under which requests of unsupported versions are counted; ApiVersions is answered in any version."""


class RequestCount:
    """Counts the requests of one API, version and client software, and their latencies."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(LATENCY_BUCKETS_SECONDS) + 1)


class LoginCounts:
    """Counts logins with SASL."""

    def __init__(self) -> None:
        self.succeeded_logins = 0
        self.failed_logins = 0
        self.repeated_logins = 0
        self.expired_logins = 0


class AuditCounts:
    """Counts the events of an audit log."""

    def __init__(self) -> None:
        self.audited_events = 0
        self.lost_audit_events = 0
        self.audit_topic_lines = 0
        self.missed_audit_topic_lines = 0


class ServerMetrics:
    """The counts of one server since its start."""

    def __init__(self, apis: Mapping[int, Api]) -> None:
        self.audit = AuditCounts()
        self.requests: dict[tuple[int, int, str], RequestCount] = {}
        self.received_bytes = 0
        self.sent_bytes = 0
        self.refused_requests = 0
        self.failed_requests = 0
        self.refused_connections = 0
        self.refused_handshakes = 0
        self.logins = LoginCounts()
        self.accepted_connections = 0
        self.open_connections = 0
        self.idle_closed_connections = 0
        self.sent_records = SentRecords()
        self.throttling = ThrottleMetrics()
        self.certificate_expiries: Callable[[], Mapping[str, int]] = dict
        """Returns when the certificates of encrypted listeners expire, in milliseconds since 1970, by listener."""
        self._apis = apis
        self._clients: set[str] = set()

    def on_responses(self, api_key: int, api_version: int, client: str, count: int, seconds: float) -> None:
        """Counts `count` responses, each sent `seconds` after its request arrived."""
        key = (api_key, api_version, client)
        counted = self.requests.get(key)
        if counted is None:
            counted = self._new_row(key)
        counted.count += count
        counted.seconds += count * seconds
        counted.buckets[bisect_left(LATENCY_BUCKETS_SECONDS, seconds)] += count

    def _new_row(self, key: tuple[int, int, str]) -> RequestCount:
        api_key, version, client = key
        if not self._apis[api_key].serves(version):
            version = UNKNOWN_VERSION
        if client not in self._clients:
            if len(self._clients) >= CLIENTS_MAX:
                client = "other"
            self._clients.add(client)
        return self.requests.setdefault((api_key, version, client), RequestCount())

    def families(self) -> Iterator["Metric"]:
        """Yields all metrics, with the memory, processor time and open files of the process."""
        from prometheus_client import ProcessCollector
        from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

        yield from ProcessCollector(registry=None).collect()
        yield from counters(self, _COUNTERS)
        yield from counters(self.sent_records, _SENT_RECORDS)
        yield from counters(self.logins, _LOGINS)
        yield from counters(self.audit, _AUDIT)
        yield GaugeMetricFamily("tailrace_connections", "Open client connections.", value=self.open_connections)
        yield from self.throttling.families()
        expiry = GaugeMetricFamily(
            "tailrace_certificate_expiry_timestamp_seconds",
            "When the first certificate of a listener expires, in seconds since 1970.",
            labels=["listener"],
        )
        for listener, expires_ms in self.certificate_expiries().items():
            expiry.add_metric([listener], expires_ms / 1000)
        yield expiry
        requests = HistogramMetricFamily(
            "tailrace_request_seconds",
            "Time from a request's arrival to its response, by API, version and client software.",
            labels=["api", "version", "client"],
        )
        for (api_key, version, client), counted in sorted(self.requests.items()):
            buckets = cumulative(LATENCY_BUCKETS_SECONDS, counted.buckets)
            labels = [self._apis[api_key].key.name.lower(), str(version), client]
            requests.add_metric(labels, buckets=buckets, sum_value=counted.seconds)
        yield requests


_COUNTERS = (
    ("received_bytes", "Bytes received from clients."),
    ("sent_bytes", "Bytes sent to clients."),
    ("refused_requests", "Requests that broke the protocol; the connection was closed."),
    ("failed_requests", "Requests that ended in an error of ours; the connection was closed."),
    ("accepted_connections", "Client connections accepted."),
    ("refused_connections", "Client connections refused because a limit of connections was reached."),
    ("refused_handshakes", "Client connections on encrypted listeners that did not come to terms about TLS."),
    ("idle_closed_connections", "Client connections closed because they were idle for too long."),
)
_LOGINS = (
    ("succeeded_logins", "Logins of clients with SASL that succeeded, the first ones and repeated ones."),
    ("failed_logins", "Logins of clients with SASL that failed."),
    ("repeated_logins", "Logins with which clients prolonged their session."),
    ("expired_logins", "Client connections closed because the client did not log in again in time."),
)
_AUDIT = (
    ("audited_events", "Events written to the audit log."),
    ("lost_audit_events", "Events that could not be written to the audit log."),
    ("audit_topic_lines", "Lines of the audit log that were copied to its topic."),
    ("missed_audit_topic_lines", "Lines of the audit log that were removed before they could be copied to its topic."),
)
_SENT_RECORDS = (
    ("uncopied_record_bytes", "Bytes of record batches that went from the page cache to clients without a copy."),
    ("copied_record_bytes", "Bytes of record batches that were read into memory on their way to clients."),
)
