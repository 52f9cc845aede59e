"""Polls a consumer until enough has come, or one whose brokers come and go."""

import time
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import UnknownBrokerIdError


def read(consumer: KafkaConsumer, count: int, seconds: float = 20) -> list[Any]:
    """The next `count` records or more, in the order in which they came."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records in {seconds} s"
        for some in consumer.poll(timeout_ms=200).values():
            records += some
    return records


def ask_no_unknown_broker(consumer: KafkaConsumer) -> None:
    """When kafka-python looks for a leader that has just gone from its metadata, `poll` loses what it had taken for its
    caller by then, and never again asks that broker for records."""
    fetcher = consumer._fetcher
    send_fetches = fetcher.send_fetches

    def send_to_those_it_knows() -> list[Any]:
        try:
            return list(send_fetches())
        except UnknownBrokerIdError as error:
            fetcher._nodes_with_pending_fetch_requests.difference_update(error.args)
            return []

    fetcher.send_fetches = send_to_those_it_knows
