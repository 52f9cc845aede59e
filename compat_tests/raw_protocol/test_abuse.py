"""A broker serves its other clients while peers break the protocol, are slow, or are silent."""

import struct
import threading
from contextlib import ExitStack

import pytest
from clients.batches import build_batch
from confluent_kafka.admin import AdminClient
from raw import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    connect,
    fetch_body,
    fetch_result,
    metadata_request,
    produce_body,
    produce_result,
    request,
)

MEBIBYTE = 1 << 20


@pytest.fixture
def neighbour(bootstrap, topic):
    """Yields a connection from before the abuse, which must work after it."""
    with connect(bootstrap) as connection:
        produce = produce_body(topic, 0, build_batch([b"before"]))
        assert produce_result(connection.call(PRODUCE, 3, produce))[0] == 0
        yield connection
        assert produce_result(connection.call(PRODUCE, 3, produce))[0] == 0
        error, high_watermark, _ = fetch_result(connection.call(FETCH, 4, fetch_body(topic, 0, 0, bytes_max=MEBIBYTE)))
        assert (error, high_watermark) == (0, 2)


SIZES_AND_WHAT_FOLLOWS = {
    "http": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "tls": bytes.fromhex("16030100f8010000f40303") + bytes(200),
    "negative size": struct.pack(">i", -1) + bytes(100),
    "size over the limit": struct.pack(">i", 0x7FFFFFFF) + bytes(100),
    "no header": struct.pack(">i", 0),
    "short header": struct.pack(">i", 3) + b"abc",
    "unknown api": request(9999, 0),
    "unknown version": request(METADATA, 999),
    "client id longer than the frame": struct.pack(">ihhih", 10, METADATA, 1, 1, 30_000),
    "array longer than the frame": request(METADATA, 1, struct.pack(">i", 0x7FFFFFF0)),
    "string longer than the frame": request(METADATA, 1, struct.pack(">ih", 1, 30_000)),
    "body incomplete": request(METADATA, 1, b"\x00"),
}


@pytest.mark.parametrize("sent", SIZES_AND_WHAT_FOLLOWS.values(), ids=SIZES_AND_WHAT_FOLLOWS)
def test_a_connection_that_breaks_the_protocol_is_closed(bootstrap, neighbour, sent):
    with connect(bootstrap) as connection:
        connection.send(sent)
        if sent.startswith(b"GET"):  # Tailrace says over HTTP what is wrong before it closes; Kafka only closes
            while connection.socket.recv(MEBIBYTE):
                pass
        else:
            assert connection.is_closed_by_broker()


def test_random_bytes_do_no_harm(bootstrap, neighbour):
    for seed in range(50):
        with connect(bootstrap) as connection:
            noise = bytes((seed * 7 + position * position * 31) % 256 for position in range(500))
            # The size is valid, so that the noise reaches the decoders.
            connection.send(struct.pack(">ihh", 496, seed % 80, seed % 12) + noise[:492])


def test_a_peer_that_leaves_within_a_request_harms_nobody(bootstrap, topic, neighbour):
    whole = request(PRODUCE, 3, produce_body(topic, 0, build_batch([b"x" * 100_000])))
    for part in (1, 3, 4, 10, len(whole) // 2, len(whole) - 1):
        with connect(bootstrap) as connection:
            connection.send(whole[:part])


def test_a_request_may_come_byte_by_byte(bootstrap, topic):
    with connect(bootstrap) as connection:
        for byte in request(PRODUCE, 3, produce_body(topic, 0, build_batch([b"slow"]))):
            connection.send(bytes([byte]))
        assert produce_result(connection.receive()[1]) == (0, 0)


def test_responses_to_pipelined_requests_keep_their_order(bootstrap, topic):
    """A long poll at the front delays the responses behind it, but not the work of their requests."""
    with connect(bootstrap) as connection:
        requests = [request(FETCH, 4, fetch_body(topic, 0, 0, wait_ms=400, bytes_max=MEBIBYTE), correlation=0)]
        for correlation in range(1, 300):
            key, version, body = [
                (API_VERSIONS, 0, b""),
                (METADATA, 1, metadata_request(topic)),
                (PRODUCE, 3, produce_body(topic + "-unknown", 0, build_batch([b"v"]))),
            ][correlation % 3]
            requests.append(request(key, version, body, correlation=correlation))
        connection.send(b"".join(requests))
        assert [connection.receive()[0] for _ in range(300)] == list(range(300))


def test_a_produce_request_without_acknowledgement_gets_no_response(bootstrap, topic):
    with connect(bootstrap) as connection:
        silent = produce_body(topic, 0, build_batch([b"a"]), acks=0)
        connection.send(request(PRODUCE, 3, silent, correlation=7) + request(API_VERSIONS, 0, correlation=8))
        assert connection.receive()[0] == 8


def test_an_idle_connection_is_kept_and_disturbs_nobody(bootstrap, topic, neighbour):
    with connect(bootstrap) as idle, connect(bootstrap) as half:
        half.send(request(API_VERSIONS, 0)[:6])
        with connect(bootstrap) as busy:
            for _ in range(100):
                busy.call(API_VERSIONS, 0)
        assert idle.call(API_VERSIONS, 0)[:2] == b"\x00\x00"
        half.send(request(API_VERSIONS, 0)[6:])
        assert half.receive()[1][:2] == b"\x00\x00"


def test_a_peer_that_does_not_read_delays_nobody_and_gets_everything_in_the_end(bootstrap, create_topic):
    topic = create_topic()
    with connect(bootstrap) as writer:
        for number in range(8):
            batch = build_batch([bytes([number]) * 1000 for _ in range(900)])
            assert produce_result(writer.call(PRODUCE, 3, produce_body(topic, 0, batch)))[0] == 0
    answers_asked_for = 40
    fetch = fetch_body(topic, 0, 0, bytes_max=8 * MEBIBYTE)
    with connect(bootstrap, receive_buffer=4096) as slow:
        asked = b"".join(request(FETCH, 4, fetch, correlation=number) for number in range(answers_asked_for))
        sender = threading.Thread(target=slow.send, args=(asked,))
        sender.start()
        with connect(bootstrap) as neighbour:
            for _ in range(50):
                error, high_watermark, records = fetch_result(
                    neighbour.call(FETCH, 4, fetch_body(topic, 0, 7000, bytes_max=1000))
                )
                assert (error, high_watermark) == (0, 7200) and records
        for number in range(answers_asked_for):
            correlation, body = slow.receive()
            error, high_watermark, records = fetch_result(body)
            assert (correlation, error, high_watermark) == (number, 0, 7200)
            assert len(records) > 7_000_000
        sender.join()


def test_many_connections_come_and_go(bootstrap, neighbour):
    for _ in range(300):
        with connect(bootstrap) as connection:
            connection.send(request(API_VERSIONS, 0))


def test_hundreds_of_connections_are_served_at_once(bootstrap):
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(bootstrap)) for _ in range(300)]
        for connection in connections:
            connection.send(request(METADATA, 1, metadata_request()))
        assert {connection.receive()[0] for connection in connections} == {1}


def test_one_record_wakes_every_fetch_that_waits_for_it(bootstrap, topic):
    fetch = request(FETCH, 4, fetch_body(topic, 0, 0, wait_ms=25_000, bytes_max=MEBIBYTE))
    with ExitStack() as stack:
        waiting = [stack.enter_context(connect(bootstrap)) for _ in range(200)]
        for connection in waiting:
            connection.send(fetch)
        with connect(bootstrap) as writer:
            assert produce_result(writer.call(PRODUCE, 3, produce_body(topic, 0, build_batch([b"wake up"])))) == (0, 0)
        for connection in waiting:
            error, high_watermark, records = fetch_result(connection.receive()[1])
            assert (error, high_watermark) == (0, 1) and records


def test_a_waiting_fetch_learns_that_its_topic_is_deleted(bootstrap, topic):
    with connect(bootstrap) as connection:
        connection.send(request(FETCH, 4, fetch_body(topic, 0, 0, wait_ms=60_000, bytes_max=MEBIBYTE)))
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics([topic], operation_timeout=10)[topic].result(20)
        error, _, records = fetch_result(connection.receive()[1])
        assert error != 0 and not records


def test_a_refused_record_that_expects_no_response_closes_the_connection(bootstrap, topic):
    """Only a closed connection tells the client that its record is lost."""
    with connect(bootstrap) as connection:
        connection.send(request(PRODUCE, 3, produce_body(topic, 99, build_batch([b"v"]), acks=0)))
        assert connection.is_closed_by_broker()
