"""kafka-python fetches records with long polls, size limits and fetch sessions."""

import threading
import time

from clients.kafka_python import read


def test_a_waiting_consumer_is_woken_by_a_record(topic, make_producer, make_consumer):
    """The fetch could wait for a minute, but returns because a record arrives."""
    consumer = make_consumer(topic, fetch_max_wait_ms=25_000)
    assert consumer.poll(timeout_ms=300) == {}
    producer = make_producer()
    producer.partitions_for(topic)
    threading.Timer(0.2, producer.send, (topic, b"wake up"), {"partition": 0}).start()
    started = time.monotonic()
    assert read(consumer, 1)[0].value == b"wake up"
    assert time.monotonic() - started < 15, "the record waited for the end of the long poll"


def test_a_fetch_waits_for_the_bytes_it_asked_for_or_its_time(topic, make_producer, make_consumer):
    producer = make_producer()
    producer.send(topic, b"small", partition=0).get(timeout=20)
    consumer = make_consumer(topic, fetch_min_bytes=1 << 20, fetch_max_wait_ms=700)
    assert read(consumer, 1)[0].value == b"small"


def test_a_batch_larger_than_the_fetch_is_read_whole(topic, make_producer, make_consumer):
    producer = make_producer(linger_ms=10_000, batch_size=1 << 20)
    for number in range(500):
        producer.send(topic, b"%d" % number + b"x" * 1000, partition=0)
    producer.flush(timeout=30)
    consumer = make_consumer(topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    assert [record.offset for record in read(consumer, 500)] == list(range(500))


def test_small_fetches_reach_the_end_of_many_partitions(create_topic, make_producer, make_consumer):
    """No partition starves if each response holds records of only some partitions."""
    topic = create_topic(partitions=20)
    producer = make_producer()
    for number in range(2000):
        producer.send(topic, b"%d" % number + b"x" * 500, partition=number % 20)
    producer.flush(timeout=30)
    consumer = make_consumer(topic, partitions=20, fetch_max_bytes=20_000, max_partition_fetch_bytes=5000)
    records = read(consumer, 2000, seconds=40)
    assert len(records) == 2000
    for partition in range(20):
        assert [record.offset for record in records if record.partition == partition] == list(range(100))


def test_everything_is_read_without_fetch_sessions_too(create_topic, make_producer, make_consumer):
    topic = create_topic(partitions=3)
    producer = make_producer()
    for number in range(300):
        producer.send(topic, b"%d" % number, partition=number % 3)
    producer.flush(timeout=30)
    consumer = make_consumer(topic, partitions=3, enable_incremental_fetch_sessions=False)
    assert sorted(int(record.value) for record in read(consumer, 300)) == list(range(300))


def test_a_session_follows_partitions_that_come_and_go(create_topic, make_producer, make_consumer):
    """The consumer's fetch session follows when a partition is removed and another one is added."""
    topic = create_topic(partitions=3)
    producer = make_producer()
    consumer = make_consumer(topic, partitions=3)
    partitions = sorted(consumer.assignment())

    def send_to_all(value):
        for partition in range(3):
            producer.send(topic, value, partition=partition)
        producer.flush(timeout=30)

    send_to_all(b"first")
    assert len(read(consumer, 3)) == 3
    consumer.pause(partitions[1])
    send_to_all(b"second")
    assert {record.partition for record in read(consumer, 2)} == {0, 2}
    consumer.resume(partitions[1])
    assert [(record.partition, record.value) for record in read(consumer, 1)] == [(1, b"second")]
