"""The examples for clients in docs/security.md do what the page says. Those for Java and Spark have other tests."""

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from other_languages.programs import GO
from secured_broker import SecuredBroker
from security_page import example
from topics import topic_creator

SECONDS_MAX = 60


def first_value(broker: SecuredBroker, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": broker.open_address, "group.id": "page"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(SECONDS_MAX)
    consumer.close()
    assert message is not None and message.error() is None
    return message.value()


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka"])
def test_a_program_of_the_page_sends_a_record(secured: SecuredBroker, client: str) -> None:
    topic = topic_creator(secured.open_address, "page")()
    exec(compile(example(client, secured, topic), client, "exec"), {})
    assert first_value(secured, topic) == f"from {client}".encode()


def test_the_program_for_franz_go_sends_a_record(secured: SecuredBroker, tmp_path: Path) -> None:
    if not GO.is_installed():
        pytest.skip("no go on this machine")
    topic = topic_creator(secured.open_address, "page")()
    program = tmp_path / "main.go"
    program.write_text(example("franz-go", secured, topic))
    # The libraries are those of the other programs.
    command = ["go", "run", str(program)]
    done = subprocess.run(command, cwd=GO.built(), capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert first_value(secured, topic) == b"from franz-go"
