"""Every config that a consumer group may have of its own, and the broker configs about groups and their offsets.

Names, defaults and bounds are those of Kafka 4.3. So is what can be altered at run time: a group's own configs, and
next to nothing of the broker's.
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
            "After how long without a heartbeat a member of a group of the consumer protocol counts as gone.",
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
            "How long after one assignment of a group of the consumer protocol the next one is made at the earliest, "
            "so that members who come together are assigned together.",
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
        "Which protocols groups may use; classic is always one of them. There are no groups of the streams protocol "
        "here, which Kafka's default names too.",
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
        "Which assignors members of groups of the consumer protocol may ask for; the first is for those that do not.",
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
        "Whether a group with members goes over from the classic protocol to the consumer protocol when a member of "
        "that one joins (upgrade), and back when the last such member leaves (downgrade).",
        Rule(f"one of: {', '.join(MIGRATION_POLICIES)}", _is_migration_policy),
        read_only=True,
    ),
    # offsets
    ConfigDefinition(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "How large the text may be that a consumer commits with an offset.",
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long the offsets of a group are kept after its last member has gone; those of a topic that a group with "
        "members does not read any more, and those of a group that never had members, after they were committed.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often it is looked for offsets that have had their time.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "How long whoever changes a group waits until enough replicas have the change.",
        at_least(1),
        read_only=True,
    ),
    # the topic that all of it is stored in
    ConfigDefinition(
        "offsets.topic.num.partitions",
        INT,
        50,
        "How many partitions the topic of groups and offsets gets when it is created. It must not change then: groups "
        "would be looked for elsewhere.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "How many replicas the topic of groups and offsets gets when it is created, where there are so many SPUs; "
        "else one on each. Kafka does not create it until there are enough.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "offsets.topic.segment.bytes",
        INT,
        100 << 20,
        "How large a segment of the topic of groups and offsets grows.",
        at_least(1 << 20),  # as of any topic; in Kafka the topic could not be created with less, which nobody would see
        read_only=True,
    ),
    # what Kafka has, and people set
    ConfigDefinition(
        "offsets.load.buffer.size",
        INT,
        5 << 20,
        "How many bytes at a time are read of the topic of groups and offsets by an SPU that takes groups over.",
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
        "How many threads answer what groups are asked.",
        at_least(1),
        read_only=True,
        honoured=False,
    ),
    ConfigDefinition(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long changes of groups wait for others, to be written together.",
        at_least(-1),
        read_only=True,
        honoured=False,
    ),
)
