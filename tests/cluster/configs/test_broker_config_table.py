"""Tests that the table of broker configs is consistent with itself and with that of topic configs."""

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.config_definitions import parse, text_of
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS


def test_every_synonym_of_a_topic_config_is_a_broker_config() -> None:
    for topic in TOPIC_CONFIGS.values():
        for synonym in topic.synonyms:
            assert BROKER_CONFIGS[synonym.name].default == synonym.default
            assert topic.documentation in BROKER_CONFIGS[synonym.name].documentation


def test_every_default_is_allowed_and_survives_its_text() -> None:
    for definition in BROKER_CONFIGS.values():
        if definition.default is not None:
            assert parse(definition, text_of(definition.default)) == definition.default, definition.name


def test_every_config_is_explained_in_sentences() -> None:
    for definition in BROKER_CONFIGS.values():
        assert definition.documentation.endswith("."), definition.name
