"""The table of all broker configs, with Kafka's names; a few are our own.

The defaults of topic configs and group configs are derived from their tables.
"""

from collections.abc import Iterable

from .audit_config_table import BROKER_CONFIGS_OF_AUDIT
from .config_definitions import ConfigDefinition, ConfigType, at_least, between, by_name, one_of
from .group_config_table import BROKER_CONFIGS_OF_GROUPS, GROUP_CONFIGS
from .quota_config_table import BROKER_CONFIGS_OF_QUOTAS
from .security_config_table import BROKER_CONFIGS_OF_SECURITY
from .token_config_table import BROKER_CONFIGS_OF_TOKENS
from .topic_config_table import BOOLEAN, DAY_MS, INT, LIST, LONG, STRING, TOPIC_CONFIGS
from .transaction_config_table import BROKER_CONFIGS_OF_TRANSACTIONS

SHORT = ConfigType.SHORT
UNBOUNDED = 2**31 - 1
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
"""The names of the replica selectors in Kafka; in Tailrace they stand for a choice, not for a class."""
AT_LEAST_ONE_CLIENT = at_least(1)
"""The rule for limits of connections. Kafka allows 0, but then no client could connect to set it back."""


def _defaults_of(kind: str, definitions: Iterable[ConfigDefinition]) -> list[ConfigDefinition]:
    """Makes a broker config for each synonym in the definitions."""
    return [
        ConfigDefinition(
            synonym.name,
            synonym.type or definition.type,
            synonym.default,
            f"The default of {definition.name} for {kind} that do not set it"
            + ("" if synonym.milliseconds == 1 else ", in a larger unit; the one in milliseconds takes precedence")
            + f". {definition.documentation}",
            definition.rule,
            honoured=definition.honoured,
            read_only=synonym.read_only,
        )
        for definition in definitions
        for synonym in definition.synonyms
    ]


BROKER_CONFIGS = by_name(
    (
        *_defaults_of("topics", TOPIC_CONFIGS.values()),
        *_defaults_of("groups", GROUP_CONFIGS.values()),
        *BROKER_CONFIGS_OF_GROUPS,
        *BROKER_CONFIGS_OF_TRANSACTIONS,
        *BROKER_CONFIGS_OF_SECURITY,
        *BROKER_CONFIGS_OF_TOKENS,
        *BROKER_CONFIGS_OF_QUOTAS,
        *BROKER_CONFIGS_OF_AUDIT,
        # facts about the SPU
        ConfigDefinition("broker.id", INT, -1, "The id of this SPU.", read_only=True),
        ConfigDefinition("node.id", INT, -1, "The id of this SPU.", read_only=True),
        ConfigDefinition("broker.rack", STRING, None, "The rack of this SPU.", read_only=True),
        ConfigDefinition("log.dirs", STRING, None, "The directory that holds the replicas.", read_only=True),
        ConfigDefinition("listeners", LIST, (), "The listeners and the addresses they are bound to.", read_only=True),
        ConfigDefinition(
            "advertised.listeners", LIST, (), "The addresses to which clients are told to connect.", read_only=True
        ),
        # topics
        ConfigDefinition(
            "num.partitions",
            INT,
            1,
            "How many partitions a topic gets if the request does not say.",
            at_least(1),
        ),
        ConfigDefinition(
            "default.replication.factor",
            SHORT,
            1,
            "How many replicas a partition gets if the request does not say.",
            at_least(1),
        ),
        ConfigDefinition(
            "auto.create.topics.enable",
            BOOLEAN,
            True,
            "Whether a missing topic is created when a client asks for its metadata and allows that.",
        ),
        ConfigDefinition("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted."),
        ConfigDefinition(
            "deleted.topic.retention.ms",
            LONG,
            DAY_MS,
            "How long the storage of a deleted topic stays on the disk, so that the topic can be restored; 0 removes "
            "it at once. Tailrace's own.",
            at_least(0),
        ),
        ConfigDefinition(
            "election.wait.response.ms",
            INT,
            3000,
            "How long the SC waits for an elected leader to confirm the election before it elects another one. "
            "Tailrace's own.",
            at_least(1),
        ),
        ConfigDefinition(
            "broker.session.timeout.ms",
            INT,
            1500,
            "The lease of an SPU: how long it counts as online after it was last heard. It renews the lease three "
            "times as often. The config is that of the Streaming Controller.",
            at_least(300),
            read_only=True,
        ),
        ConfigDefinition(
            "auto.leader.rebalance.enable",
            BOOLEAN,
            True,
            "Whether preferred replicas become leaders again some time after they are live again.",
            read_only=True,
        ),
        ConfigDefinition(
            "leader.imbalance.check.interval.seconds",
            LONG,
            300,
            "How often the SC looks for partitions that are not led by their preferred replica.",
            at_least(1),
            read_only=True,
        ),
        ConfigDefinition(
            "log.retention.check.interval.ms",
            LONG,
            300_000,
            "How often logs are searched for segments that retention removes.",
            at_least(1),
        ),
        ConfigDefinition(
            "log.cleaner.backoff.ms",
            LONG,
            15_000,
            "How long compaction rests after it has found nothing to do.",
            at_least(0),
        ),
        ConfigDefinition(
            "scrub.max.bytes.per.second",
            LONG,
            1 << 20,
            "How many bytes per second scrubbing reads from segments that no longer change, to find corrupt data and "
            "repair it from other replicas; 0 turns scrubbing off. Tailrace's own.",
            at_least(0),
        ),
        ConfigDefinition(
            "scrub.interval.ms",
            LONG,
            7 * DAY_MS,
            "How long after the beginning of one pass of scrubbing the next one begins. Tailrace's own.",
            at_least(1000),
        ),
        # producers
        ConfigDefinition(
            "producer.id.expiration.ms",
            INT,
            DAY_MS,
            "How long the sequence numbers of an idle producer are kept.",
            at_least(1),
        ),
        # clients' connections and requests
        ConfigDefinition(
            "max.connections",
            INT,
            10_000,
            "How many clients may be connected to this SPU at a time. Kafka has no bound by default.",
            AT_LEAST_ONE_CLIENT,
        ),
        ConfigDefinition(
            "max.connections.per.ip",
            INT,
            UNBOUNDED,
            "How many clients may be connected from one address at a time.",
            AT_LEAST_ONE_CLIENT,
        ),
        ConfigDefinition(
            "connections.max.idle.ms",
            LONG,
            600_000,
            "After how long an idle connection is closed; a negative number keeps it open.",
        ),
        ConfigDefinition(
            "socket.request.max.bytes",
            INT,
            100 << 20,
            "How large a request may be; a larger one closes its connection.",
            at_least(16 << 10),  # large enough for the request that sets it back
        ),
        ConfigDefinition(
            "queued.max.request.bytes",
            LONG,
            512 << 20,
            "How many bytes of requests may be in memory at a time over all connections, how many of responses that "
            "clients have not read, and how many of fetches that wait. Kafka has no bound by default.",
            at_least(1),
            read_only=True,
        ),
        ConfigDefinition(
            "socket.send.buffer.bytes",
            INT,
            256 << 10,
            "The kernel's send buffer per connection; -1 leaves it to the kernel.",
            at_least(-1),
            read_only=True,
        ),
        ConfigDefinition(
            "socket.wait.awake",
            BOOLEAN,
            True,
            "Whether a server with several cores that expects the next request very soon busy-waits for it. "
            "Tailrace's own.",
            read_only=True,
        ),
        ConfigDefinition(
            "fetch.max.bytes",
            INT,
            55 << 20,
            "How many bytes one fetch may return, except that a larger first batch is returned whole.",
            at_least(1024),
        ),
        ConfigDefinition(
            "replica.selector.class",
            ConfigType.CLASS,
            RACK_AWARE_SELECTOR,
            "Which replica consumers are told to read from: RackAwareReplicaSelector names a live follower in the "
            "consumer's rack, if the consumer names one and the leader is in another; LeaderSelector, which is "
            "Kafka's default, never does.",
            one_of(RACK_AWARE_SELECTOR, LEADER_SELECTOR),
        ),
        ConfigDefinition(
            "max.incremental.fetch.session.cache.slots",
            INT,
            1000,
            "How many fetch sessions are kept at a time.",
            at_least(0),
            read_only=True,
        ),
        ConfigDefinition(
            "max.request.partition.size.limit",
            INT,
            2000,
            "How many partitions one DescribeTopicPartitions response may describe.",
            at_least(1),
        ),
        # configs that tools of Kafka look at or set
        *(
            ConfigDefinition(
                name, LONG, 2**63 - 1, "How many bytes a second moving replicas may take.", at_least(0), honoured=False
            )
            for name in (
                "leader.replication.throttled.rate",
                "follower.replication.throttled.rate",
                "replica.alter.log.dirs.io.max.bytes.per.second",
            )
        ),
        ConfigDefinition(
            "log.cleaner.enable",
            BOOLEAN,
            True,
            "Whether compacted topics are compacted.",
            read_only=True,
        ),
        ConfigDefinition("log.cleaner.threads", INT, 1, "How many threads compact.", at_least(0), honoured=False),
        ConfigDefinition("num.io.threads", INT, 8, "How many threads handle requests.", at_least(1), honoured=False),
        ConfigDefinition(
            "num.network.threads", INT, 3, "How many threads read and write connections.", at_least(1), honoured=False
        ),
        ConfigDefinition(
            "background.threads", INT, 10, "How many threads do background work.", at_least(1), honoured=False
        ),
        ConfigDefinition(
            "num.recovery.threads.per.data.dir",
            INT,
            2,
            "How many threads open logs when the SPU starts.",
            at_least(1),
            honoured=False,
        ),
        ConfigDefinition(
            "num.replica.fetchers",
            INT,
            1,
            "How many connections replicate from one leader.",
            between(1, UNBOUNDED),
            honoured=False,
        ),
    )
)
