"""Requests that no client sends, and the exact responses to them."""

import struct
import uuid

import pytest
from clients.batches import build_batch, patched
from raw import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    connect,
    fetch_body,
    fetch_result,
    frame,
    metadata_request,
    produce_body,
    produce_result,
    request,
    string,
)
from waiting import wait_until

UNKNOWN, NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION = -1, 0, 1, 2, 3
MESSAGE_TOO_LARGE, INVALID_REQUIRED_ACKS, UNSUPPORTED_VERSION = 10, 21, 35
UNSUPPORTED_FOR_MESSAGE_FORMAT, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 43, 45, 47
UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 76, 87
INVALID_TIMESTAMP, UNKNOWN_LEADER_EPOCH = 32, 75
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 22, 23


def versions_in(body):
    """Returns the error code and {api key: (oldest version, newest version)} of an ApiVersions v0 response."""
    error, count = struct.unpack_from(">hi", body)
    entries = [struct.unpack_from(">hhh", body, 6 + 6 * index) for index in range(count)]
    return error, {key: (oldest, newest) for key, oldest, newest in entries}


def test_an_unknown_version_of_api_versions_gets_a_version_0_response_with_the_known_versions(connection):
    payload = struct.pack(">hhi", API_VERSIONS, 99, 7) + string("a client of the future") + b"\x00" + b"whatever"
    connection.send(frame(payload))
    correlation, body = connection.receive()
    error, versions = versions_in(body)
    assert (correlation, error) == (7, UNSUPPORTED_VERSION)
    assert versions[API_VERSIONS][1] >= 3
    error, versions = versions_in(connection.call(API_VERSIONS, 0))
    assert error == NONE, "the connection continues to work"
    assert versions[PRODUCE][1] >= 9 and versions[FETCH][1] >= 12 and versions[METADATA][1] >= 12


def test_metadata_from_version_1_on_lists_no_topics_for_an_empty_list_and_all_for_null(connection, topic):
    nothing = connection.call(METADATA, 1, metadata_request())
    everything = connection.call(METADATA, 1, struct.pack(">i", -1))
    assert topic.encode() not in nothing and topic.encode() in everything


def test_a_metadata_request_that_creates_a_topic_first_says_that_it_is_unknown(connection):
    name = f"created-by-metadata-{uuid.uuid4()}"
    body = struct.pack(">i", 1) + string(name) + b"\1"
    unknown = struct.pack(">h", UNKNOWN_TOPIC_OR_PARTITION) + string(name) + struct.pack(">bi", 0, 0)
    assert connection.call(METADATA, 4, body).endswith(unknown), "there are no partitions yet"
    found = struct.pack(">h", NONE) + string(name) + struct.pack(">bi", 0, 1)
    wait_until(lambda: found in connection.call(METADATA, 4, body), what="the topic has a partition")


def test_a_batch_is_stored_as_sent_except_for_its_offset_and_epoch(connection, topic):
    batches = [build_batch([b"%d" % number for number in range(count)]) for count in (3, 1, 5)]
    offsets = [produce_result(connection.call(PRODUCE, 3, produce_body(topic, 0, batch))) for batch in batches]
    assert offsets == [(NONE, 0), (NONE, 3), (NONE, 4)]
    error, high_watermark, records = fetch_result(connection.call(FETCH, 4, fetch_body(topic, 0, 0, bytes_max=1 << 20)))
    assert (error, high_watermark) == (NONE, 9)
    position = 0
    for batch, (_, offset) in zip(batches, offsets, strict=True):
        stored = records[position : position + len(batch)]
        assert struct.unpack_from(">q", stored) == (offset,)
        assert stored[8:12] == batch[8:12], "the length"
        assert stored[16:] == batch[16:], "the magic and everything that the checksum covers is unchanged"
        position += len(batch)
    assert position == len(records)


def test_a_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(connection, topic):
    batch = build_batch([b"%d" % number for number in range(10)])
    connection.call(PRODUCE, 3, produce_body(topic, 0, batch))
    for bytes_max in (1, 1 << 20):
        _, _, records = fetch_result(connection.call(FETCH, 4, fetch_body(topic, 0, 7, bytes_max=bytes_max)))
        assert len(records) == len(batch) and struct.unpack_from(">q", records) == (0,)


def test_fetches_of_what_does_not_exist_are_refused(connection, topic):
    def error_of(name, partition, offset):
        return fetch_result(connection.call(FETCH, 4, fetch_body(name, partition, offset, bytes_max=1000)))[0]

    assert error_of(topic, 0, 0) == NONE
    assert error_of(topic, 0, 1) == OFFSET_OUT_OF_RANGE
    assert error_of(topic, 0, -1) == OFFSET_OUT_OF_RANGE
    assert error_of(topic, 1, 0) == UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(topic + "-unknown", 0, 0) == UNKNOWN_TOPIC_OR_PARTITION


def test_produce_requests_to_what_does_not_exist_are_refused(connection, topic):
    batch = build_batch([b"v"])

    def error_of(name, partition, acks=-1):
        return produce_result(connection.call(PRODUCE, 3, produce_body(name, partition, batch, acks=acks)))[0]

    assert error_of(topic, 1) == UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(topic, -1) == UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(topic + "-unknown", 0) == UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(topic, 0, acks=2) == INVALID_REQUIRED_ACKS
    assert error_of(topic, 0) == NONE


GOOD = build_batch([b"first", b"second", b"third"])
SPOILT = {
    "checksum": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), {CORRUPT_MESSAGE}),
    "length too large": (patched(GOOD, 8, ">i", len(GOOD) - 12 + 1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length too small": (patched(GOOD, 8, ">i", 20), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "length negative": (patched(GOOD, 8, ">i", -5), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "cut short": (GOOD[:-3], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "magic 1": (patched(GOOD, 16, ">b", 1), {UNSUPPORTED_FOR_MESSAGE_FORMAT, CORRUPT_MESSAGE, INVALID_RECORD}),
    "magic 9": (patched(GOOD, 16, ">b", 9), {UNSUPPORTED_FOR_MESSAGE_FORMAT, CORRUPT_MESSAGE, INVALID_RECORD}),
    # Apache Kafka fails on this batch and responds with its unknown error.
    "compression unknown": (
        patched(GOOD, 21, ">h", 7),
        {UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE, UNKNOWN},
    ),
    "count larger than the records": (patched(GOOD, 57, ">i", 4), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "count disagrees with the last offset": (patched(GOOD, 23, ">i", 7), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "count negative": (patched(GOOD, 57, ">i", -1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "two batches": (GOOD + GOOD, {CORRUPT_MESSAGE, INVALID_RECORD}),
    "control batch": (patched(GOOD, 21, ">h", 0x20), {CORRUPT_MESSAGE, INVALID_RECORD}),
}


@pytest.mark.parametrize(("batch", "errors"), SPOILT.values(), ids=SPOILT)
def test_a_corrupt_batch_is_refused_and_not_stored(connection, topic, batch, errors):
    error, _ = produce_result(connection.call(PRODUCE, 3, produce_body(topic, 0, batch)))
    assert error in errors
    assert produce_result(connection.call(PRODUCE, 3, produce_body(topic, 0, GOOD))) == (NONE, 0)


def init_producer_id(connection):
    body = connection.call(INIT_PRODUCER_ID, 0, string(None) + struct.pack(">i", 60_000))
    _, error, producer_id, epoch = struct.unpack_from(">ihqh", body)
    assert error == NONE
    return producer_id, epoch


def test_each_idempotent_producer_gets_an_id_of_its_own(connection):
    ids = [init_producer_id(connection)[0] for _ in range(20)]
    assert len(set(ids)) == 20 and min(ids) >= 0


def test_sequences_of_an_idempotent_producer(connection, topic):
    producer_id, epoch = init_producer_id(connection)

    def produce(sequence, count=2, of_epoch=epoch):
        batch = build_batch([b"v"] * count, producer=(producer_id, of_epoch, sequence))
        return produce_result(connection.call(PRODUCE, 3, produce_body(topic, 0, batch)))

    assert produce(0) == (NONE, 0)
    assert produce(2) == (NONE, 2)
    assert produce(4) == (NONE, 4)
    assert produce(2) == (NONE, 2), "a repeated batch gets the offset that it already has"
    assert produce(8)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(6) == (NONE, 6), "the refused batch left nothing behind"
    assert produce(0, of_epoch=epoch + 1) == (NONE, 8)
    assert produce(10)[0] == INVALID_PRODUCER_EPOCH
    assert produce(2, of_epoch=epoch + 1) == (NONE, 10)


def test_a_larger_message_than_the_topic_allows(connection, create_topic):
    topic = create_topic(max_message_bytes="1000")
    large = produce_body(topic, 0, build_batch([b"x" * 1000]))
    assert produce_result(connection.call(PRODUCE, 3, large))[0] == MESSAGE_TOO_LARGE
    small = produce_body(topic, 0, build_batch([b"x" * 900]))
    assert produce_result(connection.call(PRODUCE, 3, small)) == (NONE, 0)


def test_an_old_produce_version_is_refused(bootstrap, topic):
    """Brokers still advertise this version because old clients need it, but they can no longer store what it
    carries."""
    with connect(bootstrap) as connection:
        body = (
            struct.pack(">hi", -1, 10_000) + struct.pack(">i", 1) + string(topic) + struct.pack(">iii", 1, 0, len(GOOD))
        )
        connection.send(request(PRODUCE, 2, body + GOOD))
        try:
            _, answer = connection.receive()
        except (EOFError, ConnectionResetError):
            return
        (name_size,) = struct.unpack_from(">h", answer, 4)
        assert struct.unpack_from(">h", answer, 4 + 2 + name_size + 4 + 4)[0] == UNSUPPORTED_VERSION


def test_a_record_from_the_far_future_is_refused(connection, topic):
    """A clock that is wrong by more than an hour could keep a segment from ever being deleted."""
    future = build_batch([b"v"], timestamp_ms=4_000_000_000_000)
    assert produce_result(connection.call(PRODUCE, 3, produce_body(topic, 0, future)))[0] == INVALID_TIMESTAMP


def test_a_minimum_above_the_number_of_replicas_is_met_by_all_replicas(connection, create_topic):
    topic = create_topic(min_insync_replicas="2")
    for acks in (-1, 1):
        assert produce_result(connection.call(PRODUCE, 3, produce_body(topic, 0, GOOD, acks=acks)))[0] == NONE


def test_the_end_of_a_leader_epoch(connection, topic):
    connection.call(PRODUCE, 3, produce_body(topic, 0, GOOD))
    _, _, records = fetch_result(connection.call(FETCH, 4, fetch_body(topic, 0, 0, bytes_max=1 << 20)))
    (epoch,) = struct.unpack_from(">i", records, 12)

    def end_of(wanted, current=-1, partition=0):
        body = struct.pack(">i", 1) + string(topic) + struct.pack(">iiii", 1, partition, current, wanted)
        answer = connection.call(OFFSET_FOR_LEADER_EPOCH, 2, body)
        error, _, found, end = struct.unpack_from(">hiiq", answer, 4 + 4 + 2 + len(topic) + 4)
        return error, found, end

    assert epoch >= 0
    assert end_of(epoch) == (NONE, epoch, 3)
    assert end_of(epoch, current=epoch) == (NONE, epoch, 3)
    assert end_of(epoch + 5) == (NONE, -1, -1)
    assert end_of(epoch, current=epoch + 1)[0] == UNKNOWN_LEADER_EPOCH
    assert end_of(epoch, partition=7)[0] == UNKNOWN_TOPIC_OR_PARTITION
