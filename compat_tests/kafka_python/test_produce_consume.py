"""Records produced with kafka-python come back unchanged and in order."""

import pytest
from clients.kafka_python import read
from kafka.errors import MessageSizeTooLargeError
from samples import COMPRESSIONS, SAMPLES
from topics import recreate_topic


def send_samples(producer, topic):
    futures = [
        producer.send(
            topic, sample.value, sample.key, headers=sample.headers, partition=0, timestamp_ms=sample.timestamp_ms
        )
        for sample in SAMPLES
    ]
    producer.flush(timeout=30)
    return [future.get(timeout=30) for future in futures]


def assert_samples(records):
    assert len(records) == len(SAMPLES)
    for record, sample in zip(records, SAMPLES, strict=True):
        assert (record.key, record.value) == (sample.key, sample.value)
        assert list(record.headers) == sample.headers
        assert (record.timestamp, record.timestamp_type) == (sample.timestamp_ms, 0)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_unchanged_at_consecutive_offsets(topic, make_producer, make_consumer, compression):
    producer = make_producer(compression_type=None if compression == "none" else compression, max_request_size=1 << 21)
    sent = send_samples(producer, topic)
    records = read(make_consumer(topic), len(SAMPLES))
    assert_samples(records)
    assert [record.offset for record in records] == list(range(len(SAMPLES)))
    assert [metadata.offset for metadata in sent] == list(range(len(SAMPLES)))


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("all", False), (1, False), (0, False)])
def test_every_kind_of_acknowledgement_stores_the_records(topic, make_producer, make_consumer, acks, idempotent):
    producer = make_producer(acks=acks, enable_idempotence=idempotent)
    for number in range(100):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(timeout=30)
    assert [record.value for record in read(make_consumer(topic), 100)] == [b"%d" % number for number in range(100)]


def test_many_small_batches_in_flight_keep_their_order(topic, make_producer, make_consumer):
    producer = make_producer(batch_size=200, max_in_flight_requests_per_connection=5)
    futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(500)]
    producer.flush(timeout=30)
    assert [future.get(timeout=10).offset for future in futures] == list(range(500))
    assert [int(record.value) for record in read(make_consumer(topic), 500)] == list(range(500))


def test_a_producer_continues_in_a_recreated_topic(bootstrap, topic, make_producer, make_consumer):
    producer = make_producer(enable_idempotence=True)
    for value in (b"1", b"2"):
        producer.send(topic, value, partition=0).get(timeout=30)
    recreate_topic(bootstrap, topic)
    for value in (b"3", b"4"):
        producer.send(topic, value, partition=0).get(timeout=30)
    assert [record.value for record in read(make_consumer(topic), 2)] == [b"3", b"4"]


def test_records_are_spread_by_key_and_stay_in_order_within_a_partition(create_topic, make_producer, make_consumer):
    topic = create_topic(partitions=4)
    producer = make_producer()
    for number in range(400):
        producer.send(topic, b"%d" % number, key=b"key %d" % (number % 20))
    producer.flush(timeout=30)
    records = read(make_consumer(topic, partitions=4), 400)
    assert len({record.partition for record in records}) > 1
    for key in {record.key for record in records}:
        of_key = [record for record in records if record.key == key]
        assert len({record.partition for record in of_key}) == 1
        assert [int(record.value) for record in of_key] == sorted(int(record.value) for record in of_key)


def test_a_message_larger_than_the_topic_allows_is_refused_and_the_next_is_accepted(create_topic, make_producer):
    topic = create_topic(max_message_bytes="1000")
    producer = make_producer(enable_idempotence=False)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 2000, partition=0).get(timeout=20)
    assert producer.send(topic, b"x" * 500, partition=0).get(timeout=20).offset == 0


def test_log_append_time_is_the_brokers(create_topic, make_producer, make_consumer):
    topic = create_topic(message_timestamp_type="LogAppendTime")
    producer = make_producer(enable_idempotence=True)
    metadata = producer.send(topic, b"v", partition=0, timestamp_ms=1).get(timeout=20)
    (record,) = read(make_consumer(topic), 1)
    assert record.timestamp_type == 1
    assert record.timestamp == metadata.timestamp
    assert record.timestamp > 1_700_000_000_000
