"""The tables of all configs of consumer groups, and of the broker configs about groups and their offsets.

Names, defaults and bounds are those of Kafka 4.3. As in Kafka, a group's own configs can be changed at run time, and
hardly any of the broker's.
"""

from .config_definitions import ConfigDefinition, ConfigType, Rule, Synonym, Value, at_least, by_name, some_of

INT, LONG, SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
STRING, LIST = ConfigType.STRING, ConfigType.LIST
UNLIMITED = 2**31 - 1
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
REBALANCE_PROTOCOLS = some_of("classic", "consumer", "streams")
ASSIGNORS = some_of("uniform", "range")


def _is_migration_policy(value: Value) -> bool:
    return isinstance(value, str) and value.lower() in MIGRATION_POLICIES


GROUP_CONFIGS = by_name(
    (
        ConfigDefinition(
            "consumer.session.timeout.ms",
            INT,
            45_000,
            "After how long without a heartbeat a member of a group of the consumer protocol is removed.",
            at_least(1),
            (Synonym("group.consumer.session.timeout.ms", 45_000, read_only=True),),
        ),
        ConfigDefinition(
            "consumer.heartbeat.interval.ms",
            INT,
            5000,
            "How often members of a group of the consumer protocol are told to send heartbeats.",
            at_least(1),
            (Synonym("group.consumer.heartbeat.interval.ms", 5000, read_only=True),),
        ),
        ConfigDefinition(
            "consumer.assignment.interval.ms",
            INT,
            1000,
            "The shortest time between two assignments of a group of the consumer protocol, so that members that join "
            "at the same time are assigned together.",
            at_least(0),
            (Synonym("group.consumer.assignment.interval.ms", 1000),),
        ),
    )
)

BROKER_CONFIGS_OF_GROUPS = (
    # the classic protocol
    ConfigDefinition(
        "group.min.session.timeout.ms",
        INT,
        6000,
        "The shortest session timeout that a member of a group of the classic protocol may ask for.",
        read_only=True,
    ),
    ConfigDefinition(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The longest session timeout that a member of a group of the classic protocol may ask for.",
        read_only=True,
    ),
    ConfigDefinition(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long an empty group of the classic protocol waits for more members after its first one. `tailrace up` "
        "sets 0.",
        read_only=True,
    ),
    ConfigDefinition(
        "group.max.size",
        INT,
        UNLIMITED,
        "How many members a group of the classic protocol may have.",
        at_least(1),
        read_only=True,
    ),
    # the consumer protocol
    ConfigDefinition(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer"),
        "The protocols that groups may use; classic must be one of them. Tailrace does not support the streams "
        "protocol, which is in Kafka's default, too.",
        Rule(
            f"{REBALANCE_PROTOCOLS.takes}, with classic among them",
            lambda value: REBALANCE_PROTOCOLS.permits(value) and isinstance(value, tuple) and "classic" in value,
        ),
        read_only=True,
    ),
    *(
        ConfigDefinition(f"group.consumer.{name}", INT, default, documentation, at_least(low), read_only=True)
        for name, default, low, documentation in (
            ("min.session.timeout.ms", 45_000, 1, "The shortest consumer.session.timeout.ms that a group may have."),
            ("max.session.timeout.ms", 60_000, 1, "The longest consumer.session.timeout.ms that a group may have."),
            (
                "min.heartbeat.interval.ms",
                5000,
                1,
                "The shortest consumer.heartbeat.interval.ms that a group may have.",
            ),
            (
                "max.heartbeat.interval.ms",
                15_000,
                1,
                "The longest consumer.heartbeat.interval.ms that a group may have.",
            ),
            (
                "min.assignment.interval.ms",
                0,
                0,
                "The shortest consumer.assignment.interval.ms that a group may have.",
            ),
            (
                "max.assignment.interval.ms",
                15_000,
                0,
                "The longest consumer.assignment.interval.ms that a group may have.",
            ),
            ("max.size", UNLIMITED, 1, "How many members a group of the consumer protocol may have."),
        )
    ),
    ConfigDefinition(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that members of groups of the consumer protocol may ask for; the first is the default.",
        Rule(
            f"{ASSIGNORS.takes}, at least one",
            lambda value: ASSIGNORS.permits(value) and bool(value),
        ),
        read_only=True,
    ),
    ConfigDefinition(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a group with members changes from the classic protocol to the consumer protocol when a member that "
        "uses the latter joins (upgrade), and back when the last such member leaves (downgrade).",
        Rule(f"one of: {', '.join(MIGRATION_POLICIES)}", _is_migration_policy),
        read_only=True,
    ),
    # offsets
    ConfigDefinition(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "The largest text that a consumer may commit with an offset.",
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long the offsets of a group are kept after its last member has left. For a topic that a group with "
        "members no longer reads, and for a group that never had members, the time counts from the commit.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often expired offsets are looked for.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "How long a request that changes a group waits until enough replicas have the change.",
        at_least(1),
        read_only=True,
    ),
    # the topic __consumer_offsets
    ConfigDefinition(
        "offsets.topic.num.partitions",
        INT,
        50,
        "How many partitions the topic of groups and offsets gets when it is created. It must not change later, "
        "because it decides in which partition a group is stored.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "How many replicas the topic of groups and offsets gets when it is created; if there are fewer SPUs, one on "
        "each. Kafka does not create the topic until there are enough brokers.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.topic.segment.bytes",
        INT,
        100 << 20,
        "How large a segment of the topic of groups and offsets may grow.",
        at_least(1 << 20),  # as for any topic; with less, Kafka could not create the topic, and would not say so
        read_only=True,
    ),
    # configs of Kafka without an effect here
    ConfigDefinition(
        "offsets.load.buffer.size",
        INT,
        5 << 20,
        "How many bytes at a time an SPU that takes over groups reads from the topic of groups and offsets.",
        at_least(1),
        read_only=True,
        honoured=False,
    ),
    ConfigDefinition(
        "offsets.topic.compression.codec",
        INT,
        0,
        "How the topic of groups and offsets is compressed.",
        read_only=True,
        honoured=False,
    ),
    ConfigDefinition(
        "group.coordinator.threads",
        INT,
        4,
        "How many threads handle requests about groups.",
        at_least(1),
        read_only=True,
        honoured=False,
    ),
    ConfigDefinition(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long changes of groups wait for others in order to be written together.",
        at_least(-1),
        read_only=True,
        honoured=False,
    ),
)
