"""kafka-python looks up offsets, and reads from them."""

import pytest
from clients.kafka_python import read
from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError
from samples import START_MS


@pytest.fixture
def filled(topic, make_producer):
    """Creates a topic whose partition has 100 records, one second apart, in batches of ten."""
    producer = make_producer(linger_ms=10_000, batch_size=1 << 20)
    for first in range(0, 100, 10):
        for number in range(first, first + 10):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=START_MS + number * 1000)
        producer.flush(timeout=30)
    return TopicPartition(topic, 0)


def test_an_empty_partition_begins_and_ends_at_zero(topic, make_consumer):
    partition = TopicPartition(topic, 0)
    consumer = make_consumer(topic)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 0}
    assert consumer.offsets_for_times({partition: 0})[partition] is None


def test_beginning_and_end(filled, make_consumer):
    consumer = make_consumer(filled.topic)
    assert consumer.beginning_offsets([filled]) == {filled: 0}
    assert consumer.end_offsets([filled]) == {filled: 100}


@pytest.mark.parametrize(
    ("milliseconds", "offset"),
    [
        (0, 0),
        (START_MS, 0),
        (START_MS + 1, 1),
        (START_MS + 15_000, 15),
        (START_MS + 98_001, 99),
        (START_MS + 99_000, 99),
    ],
)
def test_the_offset_for_a_time_is_the_first_record_at_or_after_it(filled, make_consumer, milliseconds, offset):
    found = make_consumer(filled.topic).offsets_for_times({filled: milliseconds})[filled]
    assert (found.offset, found.timestamp) == (offset, START_MS + offset * 1000)


def test_there_is_no_offset_for_a_time_after_the_last_record(filled, make_consumer):
    assert make_consumer(filled.topic).offsets_for_times({filled: START_MS + 99_001})[filled] is None


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 37, 99])
def test_reading_starts_at_the_offset_asked_for_even_in_the_middle_of_a_batch(filled, make_consumer, offset):
    consumer = make_consumer(filled.topic)
    consumer.seek(filled, offset)
    records = read(consumer, 100 - offset)
    assert [record.offset for record in records] == list(range(offset, 100))
    assert int(records[0].value) == offset


def test_seeking_back_reads_again(filled, make_consumer):
    consumer = make_consumer(filled.topic)
    assert len(read(consumer, 100)) == 100
    consumer.seek(filled, 95)
    assert [record.offset for record in read(consumer, 5)] == [95, 96, 97, 98, 99]
    consumer.seek_to_beginning(filled)
    assert read(consumer, 1)[0].offset == 0
    consumer.seek_to_end(filled)
    assert consumer.position(filled) == 100


def test_an_offset_past_the_end_is_out_of_range(filled, make_consumer):
    consumer = make_consumer(filled.topic, auto_offset_reset="none")
    consumer.seek(filled, 101)
    with pytest.raises(OffsetOutOfRangeError):
        read(consumer, 1, seconds=10)


def test_an_offset_past_the_end_is_reset_when_the_client_wants_it(filled, make_consumer):
    consumer = make_consumer(filled.topic, auto_offset_reset="earliest")
    consumer.seek(filled, 5000)
    assert read(consumer, 1)[0].offset == 0
