"""Records produced with librdkafka come back unchanged and in order."""

import pytest
from clients.librdkafka import produce, read
from confluent_kafka import KafkaError
from samples import COMPRESSIONS, SAMPLES, START_MS
from topics import recreate_topic


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_unchanged_at_consecutive_offsets(topic, make_producer, make_consumer, compression):
    producer = make_producer(compression_type=compression, message_max_bytes=1 << 21)
    for sample in SAMPLES:
        producer.produce(topic, sample.value, sample.key, 0, timestamp=sample.timestamp_ms, headers=sample.headers)
    producer.produce(topic, partition=0, timestamp=START_MS)
    assert producer.flush(30) == 0
    *records, nothing = read(make_consumer(topic), len(SAMPLES) + 1)
    for record, sample in zip(records, SAMPLES, strict=True):
        assert (record.key(), record.value()) == (sample.key, sample.value)
        assert (record.headers() or []) == sample.headers
        assert record.timestamp() == (1, sample.timestamp_ms)
    assert (nothing.key(), nothing.value()) == (None, None)
    assert [record.offset() for record in [*records, nothing]] == list(range(len(SAMPLES) + 1))


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("all", False), ("1", False), ("0", False)])
def test_every_kind_of_acknowledgement_stores_the_records(topic, make_producer, make_consumer, acks, idempotent):
    producer = make_producer(acks=acks, enable_idempotence=idempotent)
    values = [b"%d" % number for number in range(1000)]
    produce(producer, topic, values, partition=0)
    assert [record.value() for record in read(make_consumer(topic), 1000)] == values


def test_a_record_per_request_with_five_in_flight_keeps_its_order(topic, make_producer, make_consumer):
    producer = make_producer(batch_num_messages=1, max_in_flight=5, enable_idempotence=True)
    delivered = produce(producer, topic, [b"%d" % number for number in range(1000)], partition=0)
    assert [message.offset() for message in delivered] == list(range(1000))
    assert [int(record.value()) for record in read(make_consumer(topic), 1000)] == list(range(1000))


def test_a_producer_continues_in_a_recreated_topic(bootstrap, topic, make_producer, make_consumer):
    producer = make_producer(enable_idempotence=True)
    produce(producer, topic, [b"1", b"2"], partition=0)
    recreate_topic(bootstrap, topic)
    produce(producer, topic, [b"3", b"4"], partition=0)
    assert [record.value() for record in read(make_consumer(topic), 2)] == [b"3", b"4"]


def test_a_large_volume_over_many_partitions_comes_back_whole(create_topic, make_producer, make_consumer):
    """Sends 60 MB to 12 partitions, which takes several fetches and, if segments are small, several segments of
    each."""
    topic = create_topic(partitions=12, segment_bytes=str(1 << 20))
    values = [b"%08d" % number + b"x" * 1016 for number in range(60_000)]
    produce(make_producer(linger_ms=5), topic, values)
    records = read(make_consumer(topic, partitions=12), len(values), seconds=40)
    assert sorted(record.value() for record in records) == values
    for partition in range(12):
        offsets = [record.offset() for record in records if record.partition() == partition]
        assert offsets == list(range(len(offsets)))


def test_many_connections_at_once(topic, make_producer, make_consumer):
    producers = [make_producer() for _ in range(40)]
    for number, producer in enumerate(producers):
        producer.produce(topic, b"%d" % number, partition=0)
    for producer in producers:
        assert producer.flush(30) == 0
    consumers = [make_consumer(topic) for _ in range(20)]
    for consumer in consumers:
        assert {int(record.value()) for record in read(consumer, 40)} == set(range(40))


def test_a_message_larger_than_the_topic_allows_is_refused_and_the_next_is_accepted(create_topic, make_producer):
    topic = create_topic(max_message_bytes="1000")
    producer = make_producer(enable_idempotence=False)
    failures = []
    producer.produce(topic, b"x" * 2000, partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(20) == 0
    assert [failure.code() for failure in failures] == [KafkaError.MSG_SIZE_TOO_LARGE]
    (delivered,) = produce(producer, topic, [b"x" * 500], partition=0)
    assert delivered.offset() == 0


def test_producer_and_consumer_see_the_log_append_time(create_topic, make_producer, make_consumer):
    topic = create_topic(message_timestamp_type="LogAppendTime")
    (sent,) = produce(make_producer(), topic, [b"v"], partition=0, timestamp=1)
    (record,) = read(make_consumer(topic), 1)
    kind, milliseconds = record.timestamp()
    assert kind == 2 and milliseconds > START_MS
    assert sent.timestamp() == record.timestamp()


@pytest.mark.parametrize("kept", [kind for kind in COMPRESSIONS if kind != "none"] + ["uncompressed"])
def test_a_topic_may_ask_for_its_own_compression(create_topic, make_producer, make_consumer, kept):
    topic = create_topic(compression_type=kept)
    values = [b"%d" % number * 100 for number in range(200)]
    sent = "lz4" if kept == "gzip" else "gzip"
    produce(make_producer(compression_type=sent, linger_ms=50), topic, values, partition=0)
    assert [record.value() for record in read(make_consumer(topic), 200)] == values


def test_the_consumer_is_told_that_a_topic_is_unknown(make_consumer, topic):
    unknown = topic + "-unknown"
    error = make_consumer(topic).list_topics(unknown, timeout=10).topics[unknown].error
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_read_committed_reads_what_no_transaction_wrote(topic, make_producer, make_consumer):
    produce(make_producer(), topic, [b"a", b"b"], partition=0)
    consumer = make_consumer(topic, isolation_level="read_committed")
    assert [record.value() for record in read(consumer, 2)] == [b"a", b"b"]
