"""librdkafka looks up offsets, and fetches from them."""

import threading
import time

import pytest
from clients.librdkafka import produce, read
from confluent_kafka import OFFSET_END, KafkaError, TopicPartition
from samples import START_MS


@pytest.fixture
def filled(topic, make_producer):
    """Creates a topic whose partition has 100 records, one second apart, in batches of ten."""
    producer = make_producer(linger_ms=1000)
    for first in range(0, 100, 10):
        for number in range(first, first + 10):
            producer.produce(topic, b"%d" % number, partition=0, timestamp=START_MS + number * 1000)
        assert producer.flush(30) == 0
    return topic


def test_watermarks(filled, make_consumer):
    assert make_consumer(filled).get_watermark_offsets(TopicPartition(filled, 0), timeout=10) == (0, 100)


def test_offsets_for_times(filled, make_consumer):
    consumer = make_consumer(filled)

    def offset_at(milliseconds):
        (found,) = consumer.offsets_for_times([TopicPartition(filled, 0, milliseconds)], timeout=10)
        return found.offset

    assert [offset_at(START_MS + seconds * 1000) for seconds in (-1, 0, 55, 99)] == [0, 0, 55, 99]
    assert offset_at(START_MS + 54_001) == 55
    assert offset_at(START_MS + 100_000) == OFFSET_END


@pytest.mark.parametrize("offset", [0, 5, 10, 99])
def test_reading_starts_in_the_middle_of_a_batch(filled, make_consumer, offset):
    records = read(make_consumer(filled, offset=offset), 100 - offset)
    assert [record.offset() for record in records] == list(range(offset, 100))


def test_an_offset_past_the_end_is_out_of_range(filled, make_consumer):
    consumer = make_consumer(filled, offset=5000)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            break
    assert message is not None and message.error().code() in (
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
    )


def test_the_end_of_a_partition_is_reported_once_and_again_after_new_records(filled, make_consumer, make_producer):
    consumer = make_consumer(filled, enable_partition_eof=True, offset=98)

    def poll_until_end():
        values = []
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return values, message.offset()
            values.append(message.value())
        raise AssertionError("the client did not report the end of the partition")

    assert poll_until_end() == ([b"98", b"99"], 100)
    produce(make_producer(), filled, [b"100"], partition=0)
    assert poll_until_end() == ([b"100"], 101)


def test_a_waiting_consumer_is_woken_by_a_record(topic, make_producer, make_consumer):
    """The fetch could wait for 25 seconds, but returns because a record arrives."""
    consumer = make_consumer(topic, fetch_wait_max_ms=25_000, socket_timeout_ms=60_000)
    assert consumer.poll(0.5) is None
    producer = make_producer()
    timer = threading.Timer(0.2, produce, (producer, topic, [b"wake up"]), {"partition": 0})
    timer.start()
    started = time.monotonic()
    assert read(consumer, 1)[0].value() == b"wake up"
    assert time.monotonic() - started < 15, "the record waited for the end of the long poll"
    timer.join()


def test_a_batch_larger_than_the_fetch_is_read_whole(topic, make_producer, make_consumer):
    values = [b"%d" % number + b"x" * 1000 for number in range(500)]
    produce(make_producer(linger_ms=1000), topic, values, partition=0)
    consumer = make_consumer(topic, fetch_message_max_bytes=1000, fetch_max_bytes=1_000_000)
    assert [record.value() for record in read(consumer, 500)] == values
