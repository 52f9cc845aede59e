import socket
import threading

import pytest

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.codec.headers import encode_response
from tailrace.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tailrace.testing import BrokerError
from tailrace.testing.broker_connection import ask, check

VERSION = 7


def test_a_response_in_pieces_is_put_together() -> None:
    response = CreateTopicsResponse(topics=[CreatableTopicResult("orders")])
    parts = encode_response(ApiKey.CREATE_TOPICS, VERSION, 1, response)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                for byte in b"".join(bytes(part) for part in parts):  # type: ignore[arg-type]
                    connection.sendall(bytes([byte]))

        server = threading.Thread(target=respond)
        server.start()
        answer = ask(f"127.0.0.1:{listener.getsockname()[1]}", None, CreateTopicsRequest(), VERSION)
        server.join()
    assert [topic.name for topic in answer.topics] == ["orders"]


def test_a_broker_that_hangs_up_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            listener.accept()[0].close()

        server = threading.Thread(target=hang_up)
        server.start()
        with pytest.raises(BrokerError, match="the broker at "):
            ask(f"127.0.0.1:{listener.getsockname()[1]}", None, CreateTopicsRequest(), VERSION)
        server.join()


def test_an_error_code_is_an_error_with_the_reason_of_the_broker() -> None:
    check(0, None, "nothing")
    with pytest.raises(BrokerError, match=r"the topic was not created: retention.ms: 1h"):
        check(40, "retention.ms: 1h", "the topic was not created")
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        check(36, None, "the topic was not created")
