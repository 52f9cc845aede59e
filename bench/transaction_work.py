"""Work in transactions: how many per second, how long one takes, and how fast their records are read.

The producers send at once (`linger.ms=0`), and wait for each commit before they begin the next transaction.
"""

import itertools
import time
import uuid
from statistics import median
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from measured import SECONDS_MAX, Measured
from quick_clients import make_consumer, make_producer, percentile, stored, values

SECONDS = 5.0
"""How long to repeat transactions. A fixed number of them would take one system far longer than the other."""
WARM_UP = 50
"""Transactions before the measurement, in which the broker creates its internal topics."""
SIZE = 100
LATENCY_SAMPLES = 500
RECORDS_OF_PROCESSING = 100
"""The number of records that consume, process and produce has in one transaction."""
FETCHED_SIZE = 1 << 10
FETCHED_TRANSACTIONS, FETCHED_RECORDS = 300, 400
ABORTED_EVERY = 50
FETCH_PASSES = 4


def transactional_producer(bootstrap: str) -> Producer:
    name = {"transactional_id": f"bench-{uuid.uuid4().hex[:12]}"}
    producer = make_producer(bootstrap, linger_ms=0, **name)
    producer.init_transactions(SECONDS_MAX)
    return producer


def write_in_transaction(producer: Producer, topic: str, records: list[bytes], partitions: int) -> None:
    producer.begin_transaction()
    for number, value in enumerate(records):
        producer.produce(topic, value, partition=number % partitions)
    producer.commit_transaction(SECONDS_MAX)


def transactions(bootstrap: str, topic: str, records: int, partitions: int) -> Measured:
    """Measures one producer that commits one transaction after the other."""
    producer = transactional_producer(bootstrap)
    some = values(SIZE, records)
    for _ in range(WARM_UP):
        write_in_transaction(producer, topic, some, partitions)
    count, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < SECONDS:
        write_in_transaction(producer, topic, some, partitions)
        count += 1
    # Each transaction ends with a marker in each partition.
    await_records(bootstrap, topic, (WARM_UP + count) * (records + partitions))
    return {"per_second": count / seconds}


def await_records(bootstrap: str, topic: str, expected: int) -> None:
    """Waits until a topic has this number of records and markers, because markers may be written after the response."""
    deadline = time.monotonic() + SECONDS_MAX
    while (found := stored(bootstrap, topic)) != expected:
        if time.monotonic() > deadline:
            raise SystemExit(f"the topic has {found} records and markers instead of {expected}")
        time.sleep(0.05)


def latency_of_transactions(bootstrap: str, topic: str) -> Measured:
    """Measures transactions of one record, from the begin to the end of the commit, and plain writes in turns."""
    (value,) = values(SIZE, 1)
    results: list[Any] = []
    plain = make_producer(bootstrap, linger_ms=0, acks="all")
    producer = transactional_producer(bootstrap)

    def write_plainly() -> None:
        plain.produce(topic, value, on_delivery=lambda error, _: results.append(error))
        while not results:
            plain.poll(1)
        if results.pop() is not None:
            raise SystemExit("a record was not delivered")

    in_transactions: list[float] = []
    plainly: list[float] = []
    for _ in range(WARM_UP + LATENCY_SAMPLES):
        started = time.perf_counter()
        write_in_transaction(producer, topic, [value], 1)
        ended = time.perf_counter()
        write_plainly()
        plainly.append((time.perf_counter() - ended) * 1000)
        in_transactions.append((ended - started) * 1000)
    p50, plain_p50 = (percentile(samples[WARM_UP:], 0.5) for samples in (in_transactions, plainly))
    p99 = percentile(in_transactions[WARM_UP:], 0.99)
    return {"p50_ms": p50, "p99_ms": p99, "plain_p50_ms": plain_p50, "times_plain": p50 / plain_p50}


def process_in_transactions(bootstrap: str, topic: str) -> Measured:
    """Measures a member that reads records, writes one for each to another topic, and commits its offsets with them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    copies = len(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].replicas)
    output = f"{topic}-output"
    admin.create_topics([NewTopic(output, 1, copies)], operation_timeout=60)[output].result()
    filling = make_producer(bootstrap)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid.uuid4().hex[:12]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    producer = transactional_producer(bootstrap)
    consumer.subscribe([topic])
    payloads = itertools.cycle(values(SIZE))

    def process_one_transaction() -> int:
        read = [each for each in consumer.consume(RECORDS_OF_PROCESSING, 1) if each.error() is None]
        if not read:
            return 0
        producer.begin_transaction()
        for each in read:
            producer.produce(output, each.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS_MAX)
        producer.commit_transaction(SECONDS_MAX)
        return len(read)

    def fill(count: int) -> None:
        for _ in range(count):
            filling.produce(topic, next(payloads))
        if filling.flush(SECONDS_MAX):
            raise SystemExit("the records to process are not delivered")

    written = transactions_written = 0
    fill(WARM_UP * RECORDS_OF_PROCESSING)
    deadline = time.monotonic() + SECONDS_MAX
    while written < WARM_UP * RECORDS_OF_PROCESSING:
        count = process_one_transaction()
        written += count
        transactions_written += count > 0
        if time.monotonic() > deadline:
            raise SystemExit("the member has not processed the first records")
    seconds = processed = 0.0
    while seconds < SECONDS:
        fill(10 * RECORDS_OF_PROCESSING)
        left = 10 * RECORDS_OF_PROCESSING
        started = time.perf_counter()
        while left > 0:
            count = process_one_transaction()
            left -= count
            written += count
            transactions_written += count > 0
            if time.perf_counter() - started > SECONDS_MAX:
                raise SystemExit(f"{left} records were not processed")
        seconds += time.perf_counter() - started
        processed += 10 * RECORDS_OF_PROCESSING
    await_records(bootstrap, output, written + transactions_written)
    consumer.close()
    admin.delete_topics([output], operation_timeout=60)[output].result()
    return {"records_per_second": processed / seconds}


def fetch_committed(bootstrap: str, topic: str) -> Measured:
    """Measures how fast a topic of many transactions, with a few aborted ones, is read with both isolation levels."""
    producer = transactional_producer(bootstrap)
    some = values(FETCHED_SIZE, FETCHED_RECORDS)
    aborted = 0
    for number in range(FETCHED_TRANSACTIONS):
        producer.begin_transaction()
        for value in some:
            producer.produce(topic, value)
        if number % ABORTED_EVERY:
            producer.commit_transaction(SECONDS_MAX)
        else:
            producer.flush(SECONDS_MAX)
            producer.abort_transaction(SECONDS_MAX)
            aborted += 1
    records = FETCHED_TRANSACTIONS * FETCHED_RECORDS
    await_records(bootstrap, topic, records + FETCHED_TRANSACTIONS)
    rates: dict[str, list[float]] = {"read_uncommitted": [], "read_committed": []}
    expected = {"read_uncommitted": records, "read_committed": records - aborted * FETCHED_RECORDS}
    seconds_to_read(bootstrap, topic, "read_uncommitted", records)  # the first reader is slower than all others
    for number in range(FETCH_PASSES):
        for level, found in list(rates.items())[:: 1 if number % 2 else -1]:
            seconds = seconds_to_read(bootstrap, topic, level, expected[level])
            found.append(records * FETCHED_SIZE / seconds / (1 << 20))
    committed, uncommitted = median(rates["read_committed"]), median(rates["read_uncommitted"])
    return {"megabytes_per_second": committed, "times_uncommitted": committed / uncommitted}


def seconds_to_read(bootstrap: str, topic: str, level: str, count: int) -> float:
    consumer = make_consumer(bootstrap, topic, OFFSET_BEGINNING, isolation_level=level)
    started = last = time.perf_counter()
    records = 0
    while records < count:
        messages = consumer.consume(min(10_000, count - records), 0.1)
        if messages:
            last = time.perf_counter()
        elif time.perf_counter() - last > 15:
            raise SystemExit(f"only {records} of {count} records came with {level}")
        records += len(messages)
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds
