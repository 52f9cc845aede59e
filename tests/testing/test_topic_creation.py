import socket
import threading

import pytest

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.headers import encode_response
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tailrace.testing import BrokerError
from tailrace.testing.topic_creation import VERSION, check, create_topic


def _response(topic: CreatableTopicResult) -> bytes:
    return b"".join(
        bytes(part) for part in encode_response(ApiKey.CREATE_TOPICS, VERSION, 1, CreateTopicsResponse(topics=[topic]))
    )  # type: ignore[arg-type]


def test_a_refusal_is_an_error_with_the_reason_of_the_broker() -> None:
    refused = CreatableTopicResult("orders", error_code=ErrorCode.INVALID_CONFIG, error_message="retention.ms: 1h")
    with pytest.raises(BrokerError, match=r"the topic orders was not created: retention.ms: 1h"):
        check("orders", _response(refused)[4:])
    without_words = CreatableTopicResult("orders", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message=None)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        check("orders", _response(without_words)[4:])


def test_a_response_in_pieces_is_put_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                for byte in _response(CreatableTopicResult("orders")):
                    connection.sendall(bytes([byte]))

        server = threading.Thread(target=respond)
        server.start()
        create_topic(f"127.0.0.1:{listener.getsockname()[1]}", "orders", 1, 1, {})
        server.join()


def test_a_broker_that_hangs_up_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            listener.accept()[0].close()

        server = threading.Thread(target=hang_up)
        server.start()
        with pytest.raises(BrokerError, match="the topic orders was not created: the broker at"):
            create_topic(f"127.0.0.1:{listener.getsockname()[1]}", "orders", 1, 1, {})
        server.join()
