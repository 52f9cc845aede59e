"""The table of all broker configs about transactions. Names, defaults and bounds are those of Kafka 4.3."""

from .config_definitions import ConfigDefinition, ConfigType, at_least

BOOLEAN, INT, SHORT = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.SHORT

BROKER_CONFIGS_OF_TRANSACTIONS = (
    # the topic __transaction_state
    ConfigDefinition(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "How many partitions the topic of transactions gets when it is created. It must not change later, because it "
        "decides in which partition a transactional id is stored.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "How many replicas the topic of transactions gets when it is created; if there are fewer SPUs, one on each. "
        "Kafka does not create the topic until there are enough brokers.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "transaction.state.log.min.isr",
        INT,
        2,
        "The config min.insync.replicas that the topic of transactions gets when it is created. If there are fewer "
        "SPUs than it should have replicas, at most one less than the SPUs, so that one of them may fail.",
        at_least(1),
        read_only=True,
    ),
    ConfigDefinition(
        "transaction.state.log.segment.bytes",
        INT,
        100 << 20,
        "How large a segment of the topic of transactions may grow.",
        at_least(1 << 20),  # as for any topic
        read_only=True,
    ),
    # transactions
    ConfigDefinition(
        "transaction.max.timeout.ms",
        INT,
        15 * 60 * 1000,
        "The longest timeout that a producer may ask for its transactions.",
        at_least(1),
    ),
    ConfigDefinition(
        "transactional.id.expiration.ms",
        INT,
        7 * 24 * 3600 * 1000,
        "How long an idle transactional id is remembered.",
        at_least(1),
    ),
    ConfigDefinition(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether the coordinator of a transaction is asked before the first record of an older client is written to a "
        "partition. Otherwise a record that arrives after the end of its transaction begins one that nothing ends. "
        "Newer clients need the coordinator in any case.",
    ),
    # configs of Kafka without an effect here
    ConfigDefinition(
        "transaction.state.log.load.buffer.size",
        INT,
        5 << 20,
        "How many bytes at a time an SPU that takes over transactions reads from the topic of transactions.",
        at_least(1),
        read_only=True,
        honoured=False,
    ),
)
