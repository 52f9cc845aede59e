"""Tests that the broker configs of transactions are what Kafka's tools expect."""

import pytest

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.config_definitions import parse, text_of
from tailrace.protocol.error_codes import KafkaError

AS_IN_KAFKA = {
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "104857600",
    "transaction.state.log.load.buffer.size": "5242880",
}


def test_defaults_are_those_of_kafka_and_wait_for_a_restart() -> None:
    for name, text in AS_IN_KAFKA.items():
        assert text_of(BROKER_CONFIGS[name].default) == text, name
        assert BROKER_CONFIGS[name].read_only, name


@pytest.mark.parametrize("name", AS_IN_KAFKA)
def test_what_is_not_allowed(name: str) -> None:
    with pytest.raises(KafkaError):
        parse(BROKER_CONFIGS[name], "0")
