"""Produces and reads with librdkafka until the requested number of records is done."""

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Message, Producer


def produce(producer: Producer, topic: str, values: Iterable[bytes], **more: Any) -> list[Message]:
    """Sends the values, waits for all deliveries, and returns the delivered messages in order of delivery."""
    delivered: list[Message] = []

    def on_delivery(error: Any, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    sent = 0
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=on_delivery, **more)
                break
            except BufferError:
                producer.poll(1)
        sent += 1
    assert producer.flush(60) == 0, "not all records were delivered"
    assert len(delivered) == sent
    return delivered


def read(consumer: Consumer, count: int, seconds: float = 20) -> list[Message]:
    """Returns the next `count` records."""
    messages: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {len(messages)} of {count} records in {seconds} s"
        for message in consumer.consume(min(10_000, count - len(messages)), 0.2):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages
