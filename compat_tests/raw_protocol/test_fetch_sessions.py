"""Incremental fetches (KIP-227): what the broker remembers of a fetch, and the errors when it does not."""

import struct

from clients.batches import build_batch
from raw import FETCH, PRODUCE, produce_body, produce_result, string

NONE, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 0, 70, 71
BYTES_MAX = 1 << 20


def fetch(connection, session, epoch, topics=(), forgotten=()):
    """Sends a Fetch v7 of {(topic, partition): offset}; returns error, session id and {(topic, partition): (error,
    records)}."""
    body = struct.pack(">iiiibii", -1, 0, 1, BYTES_MAX, 0, session, epoch) + struct.pack(">i", len(topics))
    for (topic, partition), offset in dict(topics).items():
        body += string(topic) + struct.pack(">iiqqi", 1, partition, offset, -1, BYTES_MAX)
    body += struct.pack(">i", len(forgotten))
    for topic, partition in forgotten:
        body += string(topic) + struct.pack(">ii", 1, partition)
    return parse(connection.call(FETCH, 7, body))


def parse(answer):
    _, error, session, topics = struct.unpack_from(">ihii", answer)
    position = struct.calcsize(">ihii")
    found = {}
    for _ in range(topics):
        (name_size,) = struct.unpack_from(">h", answer, position)
        name = answer[position + 2 : position + 2 + name_size].decode()
        position += 2 + name_size
        (partitions,) = struct.unpack_from(">i", answer, position)
        position += 4
        for _ in range(partitions):
            partition, code, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, position)
            position += struct.calcsize(">ihqqqi") + 16 * max(aborted, 0)
            (size,) = struct.unpack_from(">i", answer, position)
            position += 4 + max(size, 0)
            found[name, partition] = (code, max(size, 0))
    return error, session, found


def append(connection, topic, partition):
    batch = build_batch([b"value"])
    assert produce_result(connection.call(PRODUCE, 3, produce_body(topic, partition, batch)))[0] == NONE
    return len(batch)


def test_a_session_returns_only_what_is_new(connection, create_topic):
    topic = create_topic(partitions=3)
    wanted = {(topic, partition): 0 for partition in range(3)}
    error, session, found = fetch(connection, 0, 0, wanted)
    assert (error, set(found)) == (NONE, set(wanted)) and session > 0
    assert fetch(connection, session, 1) == (NONE, session, {})
    size = append(connection, topic, 1)
    assert fetch(connection, session, 2) == (NONE, session, {(topic, 1): (NONE, size)})
    assert fetch(connection, session, 3, {(topic, 1): 1}) == (NONE, session, {})
    append(connection, topic, 1)
    append(connection, topic, 2)
    error, _, found = fetch(connection, session, 4, forgotten=[(topic, 1)])
    assert (error, found) == (NONE, {(topic, 2): (NONE, size)})


def test_a_session_that_the_broker_does_not_know(connection, topic):
    error, _, found = fetch(connection, 123_456_789, 1)
    assert (error, found) == (FETCH_SESSION_ID_NOT_FOUND, {})


def test_a_session_whose_epoch_is_wrong(connection, topic):
    _, session, _ = fetch(connection, 0, 0, {(topic, 0): 0})
    error, _, found = fetch(connection, session, 5)
    assert (error, found) == (INVALID_FETCH_SESSION_EPOCH, {})
    assert fetch(connection, session, 1)[0] == NONE, "the session itself is unharmed"


def test_a_closed_session_is_gone(connection, topic):
    _, session, _ = fetch(connection, 0, 0, {(topic, 0): 0})
    assert fetch(connection, session, -1, {(topic, 0): 0})[0] == NONE
    assert fetch(connection, session, 1)[0] == FETCH_SESSION_ID_NOT_FOUND


def test_an_error_is_repeated_in_each_response(connection, topic):
    error, session, found = fetch(connection, 0, 0, {(topic, 0): 99})
    assert (error, found[topic, 0][0]) == (NONE, 1)
    assert fetch(connection, session, 1)[2][topic, 0][0] == 1
