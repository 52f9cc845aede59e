"""The figures that the bench measures, and their goals: ratios to Apache Kafka, or figures of our own."""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field


class Of(Enum):
    """What a goal refers to."""

    RATIO = "ratio"  # Tailrace's figure / Apache Kafka's figure
    OURS = "ours"  # Tailrace's figure


class Row(Struct, frozen=True):
    """A row of the table: one figure of one piece of work."""

    name: str
    case: str
    figure: str
    unit: str
    more_is_better: bool = True
    goal: Of = Of.RATIO
    must: float | None = None
    aim: float | None = None
    copies: int = 1
    """The number of copies of each record: 1 for a single broker, and otherwise the size of the cluster."""

    def reaches(self, goal: float | None, theirs: float | None, ours: float) -> bool | None:
        """Whether our figure reaches the goal, or None if there is nothing to compare it with."""
        if goal is None:
            return None
        judged = ours
        if self.goal is Of.RATIO:
            if not theirs:
                return None
            judged = ours / theirs
        return judged >= goal if self.more_is_better else judged <= goal


class NodeWork(Struct, frozen=True):
    """Work that stops or kills nodes, and therefore gets their process ids."""

    partitions: int = 1
    configs: Mapping[str, object] = field(default_factory=dict)
    """Configs of the topic, in addition to the usual ones."""
    are_led_by_one: bool = False
    """Whether the same node leads all partitions, and the others follow."""


FAILOVER, FAILOVER_OF_MANY, COORDINATOR_FAILOVER = "failover", "failover-of-many", "coordinator-failover"
FAILOVER_OF_THOUSANDS = "failover-of-thousands"
SLOW_FOLLOWER, SLOW_FOLLOWER_UNCOMMITTED, OUTAGE = "slow-follower", "slow-follower-uncommitted", "outage"
NODE_WORK = {
    FAILOVER: NodeWork(),
    FAILOVER_OF_MANY: NodeWork(partitions=300),
    FAILOVER_OF_THOUSANDS: NodeWork(partitions=2000, are_led_by_one=True),
    COORDINATOR_FAILOVER: NodeWork(),
    OUTAGE: NodeWork(),
    SLOW_FOLLOWER: NodeWork(),
    SLOW_FOLLOWER_UNCOMMITTED: NodeWork(configs={"consumer.consistency": "uncommitted"}),
}
PARTITIONS = "partitions"
TOPIC_PARTITIONS = {"transactions-100": 3, "copied-transactions-100": 3}
"""The number of partitions of a case's topic, if it is not 1."""
OURS_ONLY = {SLOW_FOLLOWER_UNCOMMITTED}
# The order matters: a case that needs records reads those that the previous case has written.
ROWS = (
    Row("produce 1 KiB, 1 MB batches, acks=all", "produce-big", "megabytes_per_second", "MB/s", must=1.2, aim=1.8),
    Row("  the broker's CPU for it", "produce-big", "cpu_seconds", "s", False),
    Row("consume 1 KiB, 1 MiB fetches", "consume-1", "megabytes_per_second", "MB/s", must=0.95, aim=1.1),
    Row("  the broker's CPU for it", "consume-1", "cpu_seconds", "s", False, aim=0.7),
    Row("consume 1 KiB, 8 MiB fetches", "consume-8", "megabytes_per_second", "MB/s", must=0.95, aim=1.1),
    Row("  the broker's CPU for it", "consume-8", "cpu_seconds", "s", False, aim=0.7),
    Row("produce 1 KiB, 16 KiB batches, acks=all", "produce-small", "megabytes_per_second", "MB/s", must=2, aim=3.5),
    Row("100 B per request, 5 in flight, acks=1", "produce-single", "records_per_second", "req/s", must=2.5, aim=4.5),
    Row("latency acks=1, p50", "latency", "p50_ms", "ms", False, must=1, aim=0.7),
    Row("latency acks=1, p99", "latency", "p99_ms", "ms", False, must=1, aim=0.6),
    Row("end to end, waiting consumer, p50", "end-to-end", "p50_ms", "ms", False),
    Row("end to end, waiting consumer, p99", "end-to-end", "p99_ms", "ms", False, must=0.7, aim=0.4),
    Row("150 B requests pipelined", "pipelined", "requests_per_second", "req/s"),
    Row(
        *("  per second of the broker's CPU", "pipelined", "requests_per_cpu_second", "req/s"),
        goal=Of.OURS,
        must=80_000,
        aim=150_000,
    ),
    Row("400 connections, 1 request each in flight", "connections", "requests_per_second", "req/s"),
    Row("connect and ask once", "connect", "per_second", "1/s"),
    Row("start of a member to its first record, librdkafka", "join-librdkafka", "p50_ms", "ms", False, must=1, aim=0.5),
    Row("  the same, kafka-python", "join-kafka-python", "p50_ms", "ms", False, must=1, aim=0.5),
    Row("commits of a member that waits for each, librdkafka", "commit", "per_second", "1/s"),
    Row("commits of a member, 100 in flight", "commit-pipelined", "per_second", "1/s"),
    Row("rebalance of a classic group as its 101st member joins, p50", "rebalance", "p50_ms", "ms", False),
    Row("a topic of 1 000 partitions, until all have a leader", "create", "seconds", "s", False),
    Row(
        *("transactions of one 100 B record", "transactions-1", "per_second", "1/s"),
        must=3,
        aim=6,
    ),
    Row(
        *("transactions of 100 records of 100 B over 3 partitions", "transactions-100", "per_second", "1/s"),
        must=2,
        aim=4,
    ),
    Row(
        *("a transaction of one record, p50", "transactions-latency", "p50_ms", "ms"),
        more_is_better=False,
    ),
    Row(
        *("  as a multiple of a plain write with acks=all, p50", "transactions-latency", "times_plain", "×"),
        more_is_better=False,
        goal=Of.OURS,
        must=3,
        aim=2,
    ),
    Row(
        *(
            "consume, process and produce, 100 records of 100 B per transaction",
            "transactions-process",
            "records_per_second",
            "rec/s",
        ),
        must=1.5,
        aim=3,
    ),
    Row("consume transactions, read_committed", "transactions-fetch", "megabytes_per_second", "MB/s"),
    Row(
        *("  as a multiple of the same, read_uncommitted", "transactions-fetch", "times_uncommitted", "×"),
        goal=Of.OURS,
        must=0.95,
        aim=1,
    ),
    Row("start to ready", "start", "seconds", "s", False, Of.OURS, must=0.4, aim=0.2),
    Row("resident memory, idle", "memory", "idle_megabytes", "MB", False, Of.OURS, must=60, aim=40),
    Row("resident memory, after the load", "memory", "loaded_megabytes", "MB", False, Of.OURS, must=120, aim=64),
    Row(
        *("3 copies: 100 B per request, 5 in flight, acks=all", "copied-single", "records_per_second", "req/s"),
        must=10,
        aim=30,
        copies=3,
    ),
    Row(
        "3 copies: 1 KiB, 1 MB batches, acks=all",
        "copied-big",
        "megabytes_per_second",
        "MB/s",
        must=1.5,
        aim=3,
        copies=3,
    ),
    Row("  the brokers' CPU for it", "copied-big", "cpu_seconds", "s", False, copies=3),
    Row("3 copies: latency acks=all, p50", "copied-latency", "p50_ms", "ms", False, must=0.5, aim=0.3, copies=3),
    Row("3 copies: latency acks=all, p99", "copied-latency", "p99_ms", "ms", False, must=0.4, aim=0.15, copies=3),
    Row(
        *("3 copies: transactions of one 100 B record", "copied-transactions-1", "per_second", "1/s"),
        must=3,
        aim=6,
        copies=3,
    ),
    Row(
        *(
            "3 copies: transactions of 100 records of 100 B over 3 partitions",
            "copied-transactions-100",
            "per_second",
            "1/s",
        ),
        must=2,
        aim=4,
        copies=3,
    ),
    Row(
        *("3 copies: a transaction of one record, p50", "copied-transactions-latency", "p50_ms", "ms"),
        more_is_better=False,
        copies=3,
    ),
    Row(
        *("  as a multiple of a plain write with acks=all, p50", "copied-transactions-latency", "times_plain", "×"),
        more_is_better=False,
        goal=Of.OURS,
        must=3,
        aim=2,
        copies=3,
    ),
    Row(
        *(
            "3 copies: consume, process and produce, 100 records of 100 B per transaction",
            "copied-transactions-process",
            "records_per_second",
            "rec/s",
        ),
        must=1.5,
        aim=3,
        copies=3,
    ),
    Row(
        *("3 copies: replicas at rest in a GiB of memory", PARTITIONS, "per_gibibyte", ""),
        goal=Of.OURS,
        must=100_000,
        aim=400_000,
        copies=3,
    ),
    Row(
        *("3 copies: kill -9 of a leader to the next acknowledgement", FAILOVER, "seconds", "s", False),
        must=0.5,
        aim=0.2,
        copies=3,
    ),
    Row(
        *("3 copies: the same, of every third of 300 partitions, to the last one", FAILOVER_OF_MANY, "seconds"),
        *("s", False),
        copies=3,
    ),
    Row(
        *("3 copies: kill -9 of the leader of 2 000 partitions, to the last one", FAILOVER_OF_THOUSANDS, "seconds"),
        *("s", False),
        copies=3,
    ),
    Row(
        *("3 copies: kill -9 of a coordinator to the next commit", COORDINATOR_FAILOVER, "seconds", "s", False),
        copies=3,
    ),
    Row(
        *(
            "3 copies: kill -9 of a leader whose other follower lacks 300 MB: the outage, until records are taken",
            OUTAGE,
            "seconds",
        ),
        *("s", False),
        copies=3,
    ),
    Row("  the recovery, until one is committed", OUTAGE, "recovery_seconds", "s", False, copies=3),
    Row(
        *("3 copies: end to end beside a slow follower, p50", SLOW_FOLLOWER, "p50_ms", "ms", False),
        copies=3,
    ),
    Row(
        *("  the same, consumer.consistency=uncommitted", SLOW_FOLLOWER_UNCOMMITTED, "p50_ms", "ms", False),
        copies=3,
    ),
)


def _over(way: str, name: str) -> tuple[Row, ...]:
    """Returns the rows for records that are sent one way: over TLS, or over TLS after a login."""
    return (
        Row(
            f"produce 1 KiB, 1 MB batches, {name}",
            f"produce-big {way}",
            "megabytes_per_second",
            "MB/s",
            must=1,
            aim=1.5,
        ),
        Row("  the broker's CPU for it", f"produce-big {way}", "cpu_seconds", "s", False, must=1),
        Row(f"consume 1 KiB, 1 MiB fetches, {name}", f"consume-1 {way}", "megabytes_per_second", "MB/s", must=1),
        Row("  the broker's CPU for it", f"consume-1 {way}", "cpu_seconds", "s", False, must=1),
        Row(f"produce 1 KiB, 16 KiB batches, {name}", f"produce-small {way}", "megabytes_per_second", "MB/s", must=1),
        Row("  the broker's CPU for it", f"produce-small {way}", "cpu_seconds", "s", False, must=1),
    )


def _connections(way: str, name: str, must: float | None) -> tuple[Row, ...]:
    return (
        Row(f"short connections, {name}", f"logins {way}", "per_second", "1/s", must=must),
        Row("  per second of the broker's CPU", f"logins {way}", "requests_per_cpu_second", "1/s", must=must),
    )


def _beside(client: str, name: str, must: float) -> tuple[Row, ...]:
    """Returns the rows for a client, as multiples of the client on a broker without access rules and quotas."""
    told = (
        ("150 B requests pipelined", "pipelined", "requests_per_second"),
        ("  per second of the broker's CPU", "pipelined", "requests_per_cpu_second"),
        ("100 B per request, 5 in flight, acks=1", "produce-single", "records_per_second"),
        ("produce 1 KiB, 16 KiB batches", "produce-small", "megabytes_per_second"),
        ("consume 1 KiB, 1 MiB fetches", "consume-1", "megabytes_per_second"),
    )
    return tuple(
        Row(
            f"{name}: {work}" if work[0] != " " else work,
            f"{case} {client}",
            f"{figure} multiple",
            "×",
            goal=Of.OURS,
            must=must,
        )
        for work, case, figure in told
    )


SECURITY_ROWS = (
    *_over("plain", "not encrypted"),
    *_over("tls", "TLS"),
    *_over("scram-tls", "TLS and SCRAM"),
    Row("latency acks=1 over TLS, p50", "latency tls", "p50_ms", "ms", False, must=1),
    Row("latency acks=1 over TLS, p99", "latency tls", "p99_ms", "ms", False),
    *_connections("plain", "not encrypted, no login", None),
    *_connections("scram", "SCRAM", 1),
    *_connections("tls", "TLS", 1),
    *_connections("scram-tls", "TLS and SCRAM", 1),
    Row("no authorizer: 150 B requests pipelined", "pipelined without", "requests_per_second", "req/s", goal=Of.OURS),
    *_beside("super-user", "super user", 0.9),
    *_beside("with-rules", "user with rules", 0.9),
    *_beside("with-quota", "user with quotas", 0.9),
)
"""The rows of `make bench-security`."""
