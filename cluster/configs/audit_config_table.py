"""The table of the broker configs about the audit log, which Apache Kafka does not have."""

from tailrace.cluster.topic_names import INTERNAL_TOPICS, check_topic_name
from tailrace.protocol.error_codes import KafkaError

from .config_definitions import ConfigDefinition, ConfigType, Rule, Value, at_least, one_of

ENABLE = "audit.log.enable"
FILE_BYTES = "audit.log.file.bytes"
RETENTION_BYTES = "audit.log.retention.bytes"
FAILURE_POLICY = "audit.log.failure.policy"
SIGNING_KEY = "audit.log.signing.key.location"
TOPIC = "audit.log.topic"
AUDIT_PARTITION = 0
"""The partition of that topic that has all lines, so that they stay in order."""
CONTINUE, STOP = "continue", "stop"


def _may_have_the_log(value: Value) -> bool:
    """Tells whether a topic can have a copy of the audit log."""
    if not isinstance(value, str) or value in INTERNAL_TOPICS:
        return False
    try:
        check_topic_name(value)
    except KafkaError:
        return False
    return True


BROKER_CONFIGS_OF_AUDIT = (
    ConfigDefinition(
        ENABLE,
        ConfigType.BOOLEAN,
        False,
        "Whether the server writes an audit log, in the directory `audit` of its data directory. Tailrace's own.",
        read_only=True,
    ),
    ConfigDefinition(
        FILE_BYTES,
        ConfigType.INT,
        16 * 1024 * 1024,
        "The size from which the audit log goes on in a new file. Tailrace's own.",
        at_least(64 * 1024),
        read_only=True,
    ),
    ConfigDefinition(
        RETENTION_BYTES,
        ConfigType.LONG,
        1024 * 1024 * 1024,
        "The size of the audit log from which its oldest files are removed; -1 for no limit. Tailrace's own.",
        at_least(-1),
        read_only=True,
    ),
    ConfigDefinition(
        FAILURE_POLICY,
        ConfigType.STRING,
        CONTINUE,
        "What the server does if it cannot write the audit log: `continue` logs and counts the lost events, `stop` "
        "stops the server. Tailrace's own.",
        one_of(CONTINUE, STOP),
        read_only=True,
    ),
    ConfigDefinition(
        SIGNING_KEY,
        ConfigType.STRING,
        None,
        "The PEM file with the private Ed25519 key that signs the audit log. Without it, the server makes a key and "
        "keeps it beside the log. Tailrace's own.",
        read_only=True,
    ),
    ConfigDefinition(
        TOPIC,
        ConfigType.STRING,
        None,
        "The topic that gets a copy of the audit log. The server creates it with one partition if it does not exist. "
        "Lines wait in the files of the log while the topic is unavailable. Tailrace's own.",
        Rule("the name of a topic that is not internal", _may_have_the_log),
        read_only=True,
    ),
)
