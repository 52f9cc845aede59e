"""Creates topics with one request of the Kafka protocol over a blocking socket, because tests need no client for it."""

import socket
from collections.abc import Mapping
from typing import Any

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.framing import SIZE, checked_size
from tailrace.protocol.codec.headers import RequestHeader, decode_response, encode_request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

from .broker_error import BrokerError

VERSION = 7
ANSWER_SECONDS_MAX = 30.0
RESPONSE_BYTES_MAX = 1024 * 1024


def create_topic(
    bootstrap: str, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Creates a topic at the first address of `bootstrap`. Raises BrokerError."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX) as connection:
            connection.sendall(request(name, partitions, replication_factor, configs))
            size = checked_size(SIZE.unpack(_receive(connection, SIZE.size))[0], RESPONSE_BYTES_MAX)
            check(name, _receive(connection, size))
    except OSError as error:
        raise BrokerError(f"the topic {name} was not created: the broker at {bootstrap}: {error}") from error


def request(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> bytes:
    """Returns the bytes of a request that creates one topic."""
    topic = CreatableTopic(
        name,
        partitions,
        replication_factor,
        configs=[CreatableTopicConfig(key, value) for key, value in configs.items()],
    )
    header = RequestHeader(ApiKey.CREATE_TOPICS, VERSION, correlation_id=1, client_id="tailrace.testing")
    parts: list[Any] = encode_request(header, CreateTopicsRequest([topic], int(ANSWER_SECONDS_MAX * 1000)))
    return b"".join(parts)


def check(name: str, response: bytes) -> None:
    """Checks the response to `request`, without its size. Raises BrokerError if the topic was not created."""
    _, created = decode_response(ApiKey.CREATE_TOPICS, VERSION, response)
    assert isinstance(created, CreateTopicsResponse)
    for topic in created.topics:
        if topic.error_code:
            why = topic.error_message or ErrorCode(topic.error_code).name
            raise BrokerError(f"the topic {name} was not created: {why}")


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            raise ConnectionError("it closed the connection")
        received += more
    return received
