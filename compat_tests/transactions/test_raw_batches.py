"""Transactional batches that no well-behaved client sends: without their partition, too late, and of an old epoch."""

import time
from collections.abc import Iterator

import pytest
from raw import SECONDS_MAX, Connection, connect
from raw_transactions import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NONE,
    NOT_ENOUGH_REPLICAS,
    Transactional,
    committed_bytes,
    stable_offset,
)


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with connect(bootstrap) as opened:
        yield opened


def _await_stable(connection: Connection, topic: str, offset: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while stable_offset(connection, topic) < offset:
        assert time.monotonic() < deadline, f"the stable offset is {stable_offset(connection, topic)}"


def _settled_refusal(producer: Transactional, topic: str) -> int:
    """Sends a late batch again while the coordinator is busy with the end of the transaction."""
    deadline = time.monotonic() + SECONDS_MAX
    while (error := producer.produce(topic, b"late", 1)[0]) == NOT_ENOUGH_REPLICAS:
        assert time.monotonic() < deadline
    return error


def test_a_batch_whose_partition_was_not_added_is_refused(connection, topic):
    producer = Transactional(connection)
    assert producer.produce(topic, b"early", 0)[0] == INVALID_TXN_STATE
    assert stable_offset(connection, topic) == 0
    assert producer.add_partition(topic) == NONE
    assert producer.produce(topic, b"value", 0) == (NONE, 0)
    assert producer.produce(topic, b"value", 0) == (NONE, 0), "it is stored already"
    assert stable_offset(connection, topic) == 0
    assert producer.end(is_commit=True) == NONE
    _await_stable(connection, topic, 2)


def test_newer_clients_need_not_add_partitions(connection, topic):
    producer = Transactional(connection)
    for number in range(3):
        base = 3 * number
        assert producer.produce(topic, b"first", 0, version=12) == (NONE, base)
        assert producer.produce(topic, b"second", 1, version=12) == (NONE, base + 1)
        assert producer.end_with_new_epoch(is_commit=True) == NONE
    _await_stable(connection, topic, 9)
    assert committed_bytes(connection, topic).count(b"second") == 3


def test_a_late_batch_of_an_ended_transaction_is_refused(connection, topic):
    producer = Transactional(connection)
    assert producer.add_partition(topic) == NONE
    assert producer.produce(topic, b"value", 0) == (NONE, 0)
    assert producer.end(is_commit=True) == NONE
    _await_stable(connection, topic, 2)
    assert _settled_refusal(producer, topic) == INVALID_TXN_STATE
    assert stable_offset(connection, topic) == 2, "no transaction was opened"


def test_a_late_batch_of_a_newer_client_has_an_old_epoch(connection, topic):
    producer = Transactional(connection)
    assert producer.produce(topic, b"value", 0, version=12) == (NONE, 0)
    before = producer.epoch
    assert producer.end_with_new_epoch(is_commit=False) == NONE
    assert producer.epoch == before + 1
    _await_stable(connection, topic, 2)
    producer.epoch = before
    assert producer.produce(topic, b"late", 1, version=12)[0] == INVALID_PRODUCER_EPOCH
    assert stable_offset(connection, topic) == 2


def test_an_older_producer_with_the_same_id_is_fenced(connection, topic):
    zombie = Transactional(connection)
    assert zombie.add_partition(topic) == NONE
    assert zombie.produce(topic, b"zombie", 0) == (NONE, 0)
    producer = Transactional(connection, zombie.transactional_id)
    assert (producer.producer_id, producer.epoch > zombie.epoch) == (zombie.producer_id, True)
    _await_stable(connection, topic, 2)
    assert zombie.produce(topic, b"zombie", 1)[0] == INVALID_PRODUCER_EPOCH
    assert producer.add_partition(topic) == NONE
    assert producer.produce(topic, b"value", 0) == (NONE, 2)
    assert producer.end(is_commit=True) == NONE
    _await_stable(connection, topic, 4)


def test_a_hanging_transaction_is_aborted_by_a_marker(connection, topic):
    producer = Transactional(connection)
    assert producer.add_partition(topic) == NONE
    assert producer.produce(topic, b"value", 0) == (NONE, 0)
    assert stable_offset(connection, topic) == 0
    for _ in range(2):
        assert producer.write_marker(topic, is_commit=False, coordinator_epoch=0) == NONE
    assert stable_offset(connection, topic) >= 2
