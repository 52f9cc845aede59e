"""Reads records with kafka-python, and works around its bugs while brokers stop and start."""

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, UnknownBrokerIdError


def read(consumer: KafkaConsumer, count: int, seconds: float = 20) -> list[Any]:
    """Returns the next `count` records or more, in the order in which they arrived."""
    records: list[Any] = []
    deadline = time.monotonic() + seconds
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records in {seconds} s"
        for some in consumer.poll(timeout_ms=200).values():
            records += some
    return records


def tolerate_unknown_brokers(consumer: KafkaConsumer) -> None:
    """Works around a bug of kafka-python that loses records when a leader disappears.

    If `poll` looks for a leader that has just gone from its metadata, it drops the records that it had already taken
    for its caller, and never again fetches from that broker.
    """
    fetcher = consumer._fetcher
    send_fetches = fetcher.send_fetches

    def send_to_known_brokers() -> list[Any]:
        try:
            return list(send_fetches())
        except UnknownBrokerIdError as error:
            fetcher._nodes_with_pending_fetch_requests.difference_update(error.args)
            return []

    fetcher.send_fetches = send_to_known_brokers


def complete_joins(consumer: KafkaConsumer) -> None:
    """Works around a bug of kafka-python that leaves a consumer without partitions and heartbeats.

    If other topics match its pattern, it joins again. If `poll` ends meanwhile, the next one believes that there is
    nothing to join, and never looks at the response.
    """
    coordinator = consumer._coordinator
    need_rejoin = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator.rejoining or need_rejoin()


def tolerate_lost_coordinators(producer: KafkaProducer) -> None:
    """Makes a transactional producer look for a new coordinator if the connection to the old one is refused.

    kafka-python 3.0 forgets the request that it was about to send, such as EndTxn, and then waits for it forever.
    """
    client = producer._sender._client
    await_ready = client.await_ready

    def is_ready(*arguments: Any, **more: Any) -> bool:
        try:
            return bool(await_ready(*arguments, **more))
        except KafkaError:
            return False

    client.await_ready = is_ready
