import socket
import threading

import pytest

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.headers import encode_response
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tailrace.testing import BrokerError
from tailrace.testing.topic_creation import VERSION, create_topic


def _create(response: CreateTopicsResponse | None) -> None:
    """Creates a topic on a broker that sends this response, or hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            connection, _ = listener.accept()
            with connection:
                if response is not None:
                    connection.recv(65536)
                    parts = encode_response(ApiKey.CREATE_TOPICS, VERSION, 1, response)
                    connection.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

        server = threading.Thread(target=respond)
        server.start()
        try:
            create_topic(f"127.0.0.1:{listener.getsockname()[1]}", "orders", 1, 1, {})
        finally:
            server.join()


def test_a_refusal_is_an_error_with_the_reason_of_the_broker() -> None:
    refused = CreatableTopicResult("orders", error_code=ErrorCode.INVALID_CONFIG, error_message="retention.ms: 1h")
    with pytest.raises(BrokerError, match=r"the topic orders was not created: retention.ms: 1h"):
        _create(CreateTopicsResponse(topics=[refused]))
    _create(CreateTopicsResponse(topics=[CreatableTopicResult("orders")]))


def test_a_broker_that_hangs_up_is_an_error() -> None:
    with pytest.raises(BrokerError, match="the topic orders was not created: the broker at"):
        _create(None)
