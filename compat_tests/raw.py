"""A Kafka connection that sends and receives bytes, so that a test can send what no client would.

The helpers encode only what the tests need, by hand and in the oldest versions that brokers still support. The tests
thus share no codec with the broker under test.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
SECONDS_MAX = 10.0


def address_of(bootstrap: str) -> tuple[str, int]:
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    return host, int(port)


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request(key: int, version: int, body: bytes = b"", *, correlation: int = 1, client: str | None = "raw") -> bytes:
    """Returns a framed request with header version 1."""
    return frame(struct.pack(">hhi", key, version, correlation) + string(client) + body)


class Connection:
    def __init__(self, bootstrap: str, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(SECONDS_MAX)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            self.socket.connect(address_of(bootstrap))
        except OSError:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self.socket.recv(min(count, 1 << 20))
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def receive(self) -> tuple[int, bytes]:
        """Returns correlation id and body of the next response, which has header version 0."""
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        response = self.receive_exactly(size)
        (correlation,) = struct.unpack_from(">i", response)
        return correlation, response[4:]

    def call(self, key: int, version: int, body: bytes = b"") -> bytes:
        self.send(request(key, version, body))
        return self.receive()[1]

    def is_closed_by_broker(self) -> bool:
        """Whether the broker closes the connection (true) or sends something (false); raises an error if it does
        neither in time."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@contextmanager
def connect(bootstrap: str, *, receive_buffer: int | None = None) -> Iterator[Connection]:
    connection = Connection(bootstrap, receive_buffer=receive_buffer)
    with connection.socket:
        yield connection


def metadata_request(*topics: str) -> bytes:
    """Returns a Metadata v1 body; in the response, the brokers precede the controller and the topics."""
    return struct.pack(">i", len(topics)) + b"".join(map(string, topics))


def produce_body(topic: str, partition: int, records: bytes, *, acks: int = -1, timeout_ms: int = 10_000) -> bytes:
    """Returns a Produce v3 body with one partition."""
    topics = struct.pack(">i", 1) + string(topic)
    partitions = struct.pack(">iii", 1, partition, len(records)) + records
    return string(None) + struct.pack(">hi", acks, timeout_ms) + topics + partitions


def produce_result(body: bytes) -> tuple[int, int]:
    """Returns error code and base offset of a Produce v3 response about one partition."""
    (name_size,) = struct.unpack_from(">h", body, 4)
    error, offset = struct.unpack_from(">hq", body, 4 + 2 + name_size + 4 + 4)
    return error, offset


def fetch_body(
    topic: str, partition: int, offset: int, *, wait_ms: int = 0, bytes_min: int = 1, bytes_max: int
) -> bytes:
    """Returns a Fetch v4 body with one partition."""
    head = struct.pack(">iiiib", -1, wait_ms, bytes_min, bytes_max, 0)
    return head + struct.pack(">i", 1) + string(topic) + struct.pack(">iiqi", 1, partition, offset, bytes_max)


def fetch_result(body: bytes) -> tuple[int, int, bytes]:
    """Returns error code, high watermark and records of a Fetch v4 response about one partition."""
    position = 4 + 4
    (name_size,) = struct.unpack_from(">h", body, position)
    position += 2 + name_size + 4
    _, error, high_watermark, _, aborted = struct.unpack_from(">ihqqi", body, position)
    position += struct.calcsize(">ihqqi") + max(aborted, 0) * 16
    (size,) = struct.unpack_from(">i", body, position)
    return error, high_watermark, body[position + 4 : position + 4 + max(size, 0)]


def is_serving(bootstrap: str) -> bool:
    """Whether the broker lists itself and a controller; from then on clients can work with it."""
    try:
        with connect(bootstrap) as connection:
            body = connection.call(METADATA, 1, metadata_request())
    except (OSError, EOFError):
        return False
    (brokers,) = struct.unpack_from(">i", body)
    position = 4
    for _ in range(brokers):
        position += 4
        (host_size,) = struct.unpack_from(">h", body, position)
        position += 2 + host_size + 4
        (rack_size,) = struct.unpack_from(">h", body, position)
        position += 2 + max(rack_size, 0)
    (controller,) = struct.unpack_from(">i", body, position)
    return brokers > 0 and bool(controller >= 0)
