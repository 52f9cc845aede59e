"""Polls a consumer until enough has come."""

import time
from typing import Any

from kafka import KafkaConsumer


def read(consumer: KafkaConsumer, count: int, seconds: float = 20) -> list[Any]:
    """The next `count` records or more, in the order in which they came."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records in {seconds} s"
        for some in consumer.poll(timeout_ms=200).values():
            records += some
    return records
