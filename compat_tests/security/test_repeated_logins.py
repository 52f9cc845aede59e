"""Clients of librdkafka log in again while they work, and lose nothing: also in the middle of a transaction.

The cases are those of librdkafka's own test 0142. They share the time that the logins need.
"""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from secured_broker import LIFETIME_MS, USER, SecuredBroker
from topics import topic_creator

from .librdkafka_logins import librdkafka

SECONDS_MAX = 30
PLAIN, COMMITTED, ABORTED, REFUSED = range(4)
"""The partitions, one for each producer."""


class Sender:
    """A producer of numbers for one partition."""

    def __init__(self, settings: dict[str, Any], topic: str, partition: int) -> None:
        self.errors: list[KafkaError] = []
        self.sent = 0
        self.delivered = 0
        self._topic, self._partition = topic, partition
        self.producer = Producer(settings | {"error_cb": self.errors.append, "linger.ms": 0})

    def send(self) -> None:
        self.producer.produce(self._topic, str(self.sent), partition=self._partition, on_delivery=self._note)
        self.sent += 1
        self.producer.poll(0)

    def _note(self, error: KafkaError | None, _: object) -> None:
        self.delivered += error is None

    def was_refused(self) -> bool:
        self.producer.poll(0)
        return any(each.code() == KafkaError._AUTHENTICATION for each in self.errors)


def repeated_logins(broker: SecuredBroker) -> float:
    with urllib.request.urlopen(f"http://{broker.metrics}/metrics") as response:
        text = response.read().decode()
    (line,) = [line for line in text.splitlines() if line.startswith("tailrace_repeated_logins_total ")]
    return float(line.split()[1])


def values(consumer: Consumer) -> Iterator[bytes | None]:
    """Yields the values up to the ends of what is assigned."""
    partitions = len(consumer.assignment())
    while partitions:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        if message.error() is None:
            yield message.value()
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            partitions -= 1


def reader(settings: dict[str, Any], topic: str, partition: int) -> Consumer:
    consumer = Consumer(settings | {"group.id": "repeated", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    return consumer


def test_clients_lose_nothing_when_they_log_in_again(secured: SecuredBroker) -> None:
    topic = topic_creator(secured.open_address, "repeated")(partitions=4)
    settings = {
        PLAIN: librdkafka(secured, "SASL_SSL", "OAUTHBEARER"),
        COMMITTED: librdkafka(secured, "SASL_SSL", "SCRAM-SHA-512") | {"transactional.id": "committed"},
        ABORTED: librdkafka(secured, "SASL_PLAINTEXT", "PLAIN") | {"transactional.id": "aborted"},
        REFUSED: librdkafka(secured, "SASL_PLAINTEXT", "SCRAM-SHA-256"),
    }
    senders = {partition: Sender(each, topic, partition) for partition, each in settings.items()}
    for each in (COMMITTED, ABORTED):
        senders[each].producer.init_transactions(SECONDS_MAX)
        senders[each].producer.begin_transaction()
    before = repeated_logins(secured) if secured.metrics else 0
    live = reader(librdkafka(secured, "SASL_SSL", "SCRAM-SHA-256"), topic, PLAIN)
    read = 0
    refused = senders.pop(REFUSED)
    refused.send()
    assert refused.producer.flush(SECONDS_MAX) == 0
    refused.producer.set_sasl_credentials(USER, "wrong-since-now")

    end = time.monotonic() + 2 * LIFETIME_MS / 1000 + 1
    while time.monotonic() < end:
        for sender in senders.values():
            sender.send()
        for sender in senders.values():  # so that a login never waits behind many requests
            assert sender.producer.flush(SECONDS_MAX) == 0
        message = live.poll(0.05)  # the load is small, so that the test takes its time in the transactions
        read += message is not None and message.error() is None
    for sender in senders.values():
        assert sender.producer.flush(SECONDS_MAX) == 0
        assert sender.delivered == sender.sent
        assert not sender.was_refused()
    senders[COMMITTED].producer.commit_transaction(SECONDS_MAX)
    senders[ABORTED].producer.abort_transaction(SECONDS_MAX)

    assert not secured.metrics or repeated_logins(secured) >= before + len(senders)
    with closing(live):
        while read < senders[PLAIN].sent:
            message = live.poll(SECONDS_MAX)
            assert message is not None
            read += message.error() is None
    for partition, expected in ((COMMITTED, senders[COMMITTED].sent), (ABORTED, 0)):
        with closing(reader(settings[REFUSED], topic, partition)) as consumer:
            assert [*values(consumer)] == [b"%d" % number for number in range(expected)]
    while not refused.was_refused():
        assert time.monotonic() < end + SECONDS_MAX
        refused.producer.poll(0.1)
