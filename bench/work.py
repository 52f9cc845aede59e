"""Runs one piece of client work against one broker, and prints the measured figures as one line of JSON.

    python bench/work.py HOST:PORT CASE TOPIC
    python bench/work.py HOST:PORT CASE TOPIC NODE:PID…    # for work that kills or stops nodes

The clients are librdkafka, which is the fastest one, and bare sockets if even librdkafka would be the bottleneck. Each
case runs in a new process, so that all start under the same conditions.
"""

import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fresh_batches import fresh_batch
from group_work import (
    commit_one_by_one,
    commit_pipelined,
    coordinator_failover,
    first_record,
    read_with_kafka_python,
    read_with_librdkafka,
    rebalance,
)
from login_work import log_in_often, open_connection
from measured import SECONDS_MAX, Measured
from quick_clients import make_consumer, make_producer, percentile, stored, values
from raw import API_VERSIONS, PRODUCE, Connection, address_of, produce_body, produce_result, request
from replication_work import outage, process_ids, with_a_slow_follower
from transaction_work import fetch_committed, latency_of_transactions, process_in_transactions, transactions

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20


def produce(bootstrap: str, topic: str, size: int, count: int, **settings: Any) -> Measured:
    producer = make_producer(bootstrap, **settings)
    producer.list_topics(topic, timeout=10)
    before = stored(bootstrap, topic)
    started = time.perf_counter()
    sent = send(producer, topic, size, count)
    seconds = time.perf_counter() - started
    if stored(bootstrap, topic) - before != sent:
        raise SystemExit(f"{stored(bootstrap, topic) - before} of {sent} records are stored")
    return {"megabytes_per_second": sent * size / seconds / MEBIBYTE, "records_per_second": sent / seconds}


def send(producer: Producer, topic: str, size: int, count: int) -> int:
    """Sends at least `count` records, waits for their delivery, and returns their number."""
    chunk = [{"value": value} for value in values(size)]
    rounds = -(-count // len(chunk))
    for _ in range(rounds):
        if producer.produce_batch(topic, chunk) != len(chunk):
            raise SystemExit("the producer's queue is too small for the work")
    if left := producer.flush(SECONDS_MAX):
        raise SystemExit(f"{left} of {rounds * len(chunk)} records are not delivered")
    return rounds * len(chunk)


def consume(bootstrap: str, topic: str, fetch_bytes: int) -> Measured:
    count = stored(bootstrap, topic)
    consumer = make_consumer(
        bootstrap,
        topic,
        OFFSET_BEGINNING,
        fetch_message_max_bytes=fetch_bytes,
        fetch_max_bytes=max(fetch_bytes, 1 << 26),
    )
    started = last = time.perf_counter()
    records = size = 0
    while records < count:
        messages = consumer.consume(min(10_000, count - records), 0.1)
        if messages:
            last = time.perf_counter()
        elif time.perf_counter() - last > 15:
            raise SystemExit(f"only {records} of {count} records came")
        records += len(messages)
        size += sum(map(len, messages))
    seconds = time.perf_counter() - started
    consumer.close()
    return {"megabytes_per_second": size / seconds / MEBIBYTE}


def one_at_a_time(bootstrap: str, topic: str, count: int, acks: str) -> Measured:
    """Measures the latency of an acknowledgement, by waiting for each record before the next one."""
    producer = make_producer(bootstrap, linger_ms=0, acks=acks)
    (value,) = values(100, 1)
    results: list[Any] = []
    samples = []
    for _ in range(count + 100):
        started = time.perf_counter()
        producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        while not results:
            producer.poll(1)
        samples.append((time.perf_counter() - started) * 1000)
        if results.pop() is not None:
            raise SystemExit("a record was not delivered")
    samples = samples[100:]
    return {"p50_ms": percentile(samples, 0.5), "p99_ms": percentile(samples, 0.99)}


def failover(bootstrap: str, topic: str) -> Measured:
    """Kills the leader, and waits for the acknowledgement of the first record after that."""
    producer = make_producer(bootstrap, linger_ms=0, acks="all")
    (value,) = values(100, 1)
    results: list[Any] = []

    def send_one() -> None:
        producer.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        while not results:
            producer.poll(0.01)
        if results.pop() is not None:
            raise SystemExit("a record was not delivered")

    for _ in range(200):
        send_one()
    leader = producer.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    return seconds_after_the_end_of(leader, send_one)


def failover_of_many(bootstrap: str, topic: str, acks: str) -> Measured:
    """Kills the leader of some partitions, and waits for the acknowledgement of a record for each of them."""
    producer = make_producer(bootstrap, linger_ms=0, acks=acks)
    partitions = producer.list_topics(topic, timeout=10).topics[topic].partitions
    (value,) = values(100, 1)

    def send_to_each() -> None:
        results: list[Any] = []
        for partition in partitions:
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: results.append(error))
        if producer.flush(SECONDS_MAX) or any(results):
            raise SystemExit("a record was not delivered")

    send_to_each()
    return seconds_after_the_end_of(partitions[0].leader, send_to_each)


def create_topic(bootstrap: str, topic: str, partitions: int) -> Measured:
    """Measures the creation of another topic than the given one."""
    admin, name = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}), f"{topic}-large"
    admin.list_topics(topic, timeout=10)
    started = time.perf_counter()
    admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=60, request_timeout=60)[name].result()
    while not all_are_led(admin, name, partitions):
        time.sleep(0.005)
    seconds = time.perf_counter() - started
    admin.delete_topics([name], operation_timeout=60, request_timeout=60)[name].result()
    return {"seconds": seconds}


def all_are_led(admin: AdminClient, topic: str, partitions: int) -> bool:
    told = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return len(told) == partitions and all(each.leader >= 0 for each in told.values())


def seconds_after_the_end_of(node: int, work: Callable[[], None]) -> Measured:
    os.kill(process_ids()[node], signal.SIGKILL)
    killed = time.perf_counter()
    time.sleep(0.005)  # the killed process may still be at work on the other core
    work()
    return {"seconds": time.perf_counter() - killed, "node": float(node)}


def end_to_end(bootstrap: str, topic: str, count: int, pause_seconds: float) -> Measured:
    """Measures from produce() to the arrival at a consumer that waits in a long poll."""
    consumer = make_consumer(bootstrap, topic, OFFSET_END)
    arrived: list[float] = []
    ready = threading.Event()

    def read() -> None:
        while len(arrived) < count:
            message = consumer.poll(1)
            now = time.perf_counter_ns()
            if message is not None and message.error() is None:
                value = message.value() or b""
                if value == b"ready":
                    ready.set()
                else:
                    arrived.append((now - int(value[:20])) / 1e6)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    producer = make_producer(bootstrap, linger_ms=0, acks="1")
    deadline = time.monotonic() + SECONDS_MAX
    while not ready.wait(0.2):
        producer.produce(topic, b"ready")
        producer.poll(0)
        if time.monotonic() > deadline:
            raise SystemExit("the consumer never got ready")
    for _ in range(count):
        producer.produce(topic, b"%020d" % time.perf_counter_ns() + b"x" * 80)
        producer.poll(0)
        time.sleep(pause_seconds)
    producer.flush(SECONDS_MAX)
    reader.join(SECONDS_MAX)
    if len(arrived) < count:
        raise SystemExit(f"only {len(arrived)} of {count} records arrived")
    return {"p50_ms": percentile(arrived, 0.5), "p99_ms": percentile(arrived, 0.99)}


def beside_a_slow_follower(bootstrap: str, topic: str) -> Measured:
    return with_a_slow_follower(bootstrap, topic, lambda: end_to_end(bootstrap, topic, 500, 0.004))


def pipelined(bootstrap: str, topic: str, requests: int, window: int) -> Measured:
    """Sends small produce requests (with records of 150 bytes) through one socket, with `window` of them in flight."""
    batch = fresh_batch(b"x" * 10)
    body = produce_body(topic, 0, batch, acks=1)
    padding = 150 - len(request(PRODUCE, 3, body))
    one = request(PRODUCE, 3, produce_body(topic, 0, fresh_batch(b"x" * (10 + max(0, padding))), acks=1))
    connection = open_connection(bootstrap)
    connection.socket.settimeout(SECONDS_MAX)
    connection.send(one)
    _, answer = connection.receive()
    if produce_result(answer)[0] != 0:
        raise SystemExit("a request was refused")
    answer_bytes = 4 + 4 + len(answer)
    many = one * window
    rounds = requests // window
    answers = []
    started = time.perf_counter()
    connection.send(many)
    for _ in range(rounds - 1):
        connection.send(many)
        answers.append(connection.receive_exactly(answer_bytes * window))
    answers.append(connection.receive_exactly(answer_bytes * window))
    seconds = time.perf_counter() - started
    connection.socket.close()
    for some in answers:
        for end in range(answer_bytes, len(some) + 1, answer_bytes):
            refusal, *_ = produce_result(some[end - len(answer) : end])
            if refusal != 0:
                raise SystemExit(f"a request was refused with error {refusal}")
    if stored(bootstrap, topic) < rounds * window:
        raise SystemExit("records are missing")
    return {"requests_per_second": rounds * window / seconds, "requests": float(rounds * window)}


def many_connections(bootstrap: str, topic: str, connections: int, requests: int) -> Measured:
    """Measures `connections` clients that each have one small produce request in flight."""
    one = request(PRODUCE, 3, produce_body(topic, 0, fresh_batch(b"x" * 100), acks=1))
    selector = selectors.DefaultSelector()
    sockets = []
    for _ in range(connections):
        opened = socket.create_connection(address_of(bootstrap), timeout=SECONDS_MAX)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(opened, selectors.EVENT_READ)
        sockets.append(opened)
    started = time.perf_counter()
    for opened in sockets:
        opened.send(one)
    answered = 0
    while answered < requests:
        ready = selector.select(SECONDS_MAX)
        if not ready:
            raise SystemExit(f"only {answered} of {requests} requests got a response")
        for key, _ in ready:
            # A response of this size arrives in one piece.
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.recv(4096)
            key.fileobj.send(one)
        answered += len(ready)
    seconds = time.perf_counter() - started
    for opened in sockets:
        opened.close()
    return {"requests_per_second": answered / seconds}


def connect_and_ask(bootstrap: str, topic: str, count: int) -> Measured:
    """Measures new connections, one after the other, with one request each, as short-lived clients make them."""
    question = request(API_VERSIONS, 0)
    moments = [time.perf_counter()]
    for _ in range(count):
        connection = Connection(bootstrap)
        connection.send(question)
        connection.receive_exactly(struct.calcsize(">iih"))
        connection.socket.close()
        moments.append(time.perf_counter())
    samples = [(after - before) * 1000 for before, after in pairwise(moments)]
    return {"p50_ms": percentile(samples, 0.5), "per_second": count / (moments[-1] - moments[0])}


CASES: dict[str, Callable[[str, str], Measured]] = {
    "produce-big": lambda b, t: produce(b, t, KIBIBYTE, 400_000, batch_size=1_000_000, linger_ms=20, acks="all"),
    "produce-small": lambda b, t: produce(b, t, KIBIBYTE, 200_000, batch_size=16_384, linger_ms=5, acks="all"),
    "produce-single": lambda b, t: produce(
        b, t, 100, 40_000, batch_num_messages=1, max_in_flight=5, linger_ms=0, acks="1"
    ),
    "consume-1": lambda b, t: consume(b, t, MEBIBYTE),
    "consume-8": lambda b, t: consume(b, t, 8 * MEBIBYTE),
    "latency": lambda b, t: one_at_a_time(b, t, 3000, "1"),
    "end-to-end": lambda b, t: end_to_end(b, t, 500, 0.004),
    "pipelined": lambda b, t: pipelined(b, t, 200_000, 200),
    "connections": lambda b, t: many_connections(b, t, 400, 40_000),
    "logins": lambda b, _: log_in_often(b, 4, 4),
    "connect": lambda b, t: connect_and_ask(b, t, 1000),
    "copied-single": lambda b, t: produce(
        b, t, 100, 10_000, batch_num_messages=1, max_in_flight=5, linger_ms=0, acks="all"
    ),
    "copied-big": lambda b, t: produce(b, t, KIBIBYTE, 200_000, batch_size=1_000_000, linger_ms=20, acks="all"),
    "copied-latency": lambda b, t: one_at_a_time(b, t, 3000, "all"),
    "join-librdkafka": lambda b, t: first_record(b, t, 10, read_with_librdkafka),
    "join-kafka-python": lambda b, t: first_record(b, t, 10, read_with_kafka_python),
    "commit": lambda b, t: commit_one_by_one(b, t, 2000),
    "commit-pipelined": lambda b, t: commit_pipelined(b, t, 10_000, 100),
    "rebalance": lambda b, t: rebalance(b, t, 100, 10),
    "create": lambda b, t: create_topic(b, t, 1000),
    "transactions-1": lambda b, t: transactions(b, t, records=1, partitions=1),
    "transactions-100": lambda b, t: transactions(b, t, records=100, partitions=3),
    "transactions-latency": latency_of_transactions,
    "transactions-process": process_in_transactions,
    "transactions-fetch": fetch_committed,
    "copied-transactions-1": lambda b, t: transactions(b, t, records=1, partitions=1),
    "copied-transactions-100": lambda b, t: transactions(b, t, records=100, partitions=3),
    "copied-transactions-latency": latency_of_transactions,
    "copied-transactions-process": process_in_transactions,
    "failover": failover,
    "failover-of-many": lambda b, t: failover_of_many(b, t, "all"),
    # librdkafka has one request per partition, and Apache Kafka does not start one before the last one is replicated.
    "failover-of-thousands": lambda b, t: failover_of_many(b, t, "1"),
    "outage": lambda b, t: outage(
        b, t, lambda: send(make_producer(b, batch_size=1_000_000, linger_ms=20, acks="1"), t, KIBIBYTE, 300_000)
    ),
    "slow-follower": beside_a_slow_follower,
    "slow-follower-uncommitted": beside_a_slow_follower,
    "coordinator-failover": lambda b, t: coordinator_failover(b, t, seconds_after_the_end_of),
    "warm-up": lambda b, t: produce(b, t, KIBIBYTE, 300_000, batch_size=131_072, linger_ms=5, acks="all"),
}


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[2]](sys.argv[1], sys.argv[3])))
