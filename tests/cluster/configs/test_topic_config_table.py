"""Tests that the table of topic configs is complete and consistent."""

from tailrace.cluster.configs.config_definitions import parse, text_of
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS

KAFKA_4_3 = frozenset(
    [
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    ]
)
OURS = {"replication.policy", "consumer.consistency", "flush.bytes", "lrs.max.lag.records", "lrs.max.lag.ms"}


def test_every_topic_config_of_kafka_is_there_and_ours() -> None:
    listed = {definition.name for definition in TOPIC_CONFIGS.values() if not definition.hidden}
    assert listed == KAFKA_4_3 | OURS


def test_every_default_is_allowed_and_survives_its_text() -> None:
    for definition in TOPIC_CONFIGS.values():
        if definition.default is not None:
            assert parse(definition, text_of(definition.default)) == definition.default, definition.name


def test_the_synonyms_of_a_config_have_its_default() -> None:
    for definition in TOPIC_CONFIGS.values():
        defaults = []
        for synonym in definition.synonyms:
            if isinstance(synonym.default, int) and synonym.milliseconds != 1:
                defaults.append(synonym.default * synonym.milliseconds)
            elif synonym.default is not None:
                defaults.append(synonym.default)
        assert defaults in ([], [definition.default]), definition.name


def test_every_config_is_explained_in_sentences() -> None:
    for definition in TOPIC_CONFIGS.values():
        assert definition.documentation.endswith("."), definition.name
        assert len(definition.documentation) > 30, definition.name
