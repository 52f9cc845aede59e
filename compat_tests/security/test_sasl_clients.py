"""Stock clients prove who they are in every way: each mechanism, with and without TLS, and certificates."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError
from brokers import is_apache_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonError
from kafka.net.sasl.oauth import AbstractTokenProvider
from secured_broker import CERTIFICATE, PASSWORD, USER, WAYS, SecuredBroker
from topics import topic_creator

from .librdkafka_logins import librdkafka

SECONDS_MAX = 20


@pytest.fixture(scope="module")
def topic(secured: SecuredBroker) -> str:
    return topic_creator(secured.open_address, "logins")()


def with_librdkafka(broker: SecuredBroker, protocol: str, mechanism: str, topic: str, password: str) -> None:
    failures: list[KafkaError] = []
    settings = librdkafka(broker, protocol, mechanism, password) | {"error_cb": failures.append}
    producer = Producer(settings)
    producer.produce(topic, b"librdkafka")
    deadline = time.monotonic() + SECONDS_MAX
    while producer.flush(0.05) and time.monotonic() < deadline:
        if any(failure.code() == KafkaError._AUTHENTICATION for failure in failures):
            producer.purge()
            producer.flush(1)
            raise PermissionError(failures[0].str())
    assert len(producer) == 0
    consumer = Consumer(settings | {"group.id": f"g-{mechanism}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(SECONDS_MAX)
    assert message is not None and message.error() is None
    consumer.close()


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def with_kafka_python(broker: SecuredBroker, protocol: str, mechanism: str, topic: str, password: str) -> None:
    settings = {
        "bootstrap_servers": broker.address(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(broker.authority),
    }
    if mechanism == CERTIFICATE:
        settings["ssl_certfile"] = str(broker.certificate)
    else:
        settings |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": password}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _Token(broker.token if password == PASSWORD else "e30.e30.")
    try:
        producer = KafkaProducer(**settings, max_block_ms=SECONDS_MAX * 1000, retries=0, bootstrap_timeout_ms=3000)
        try:
            producer.send(topic, b"kafka-python").get(SECONDS_MAX)
        finally:
            producer.close(1)
    except PythonError as error:
        raise PermissionError(str(error)) from None
    consumer = KafkaConsumer(
        topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS_MAX * 1000, group_id=None
    )
    assert next(iter(consumer)).value
    consumer.close()


class _AsyncToken(AsyncTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def with_aiokafka(broker: SecuredBroker, protocol: str, mechanism: str, topic: str, password: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.address(protocol),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        settings["ssl_context"] = ssl.create_default_context(cafile=str(broker.authority))
    if mechanism == CERTIFICATE:
        settings["ssl_context"].load_cert_chain(broker.certificate)
    else:
        settings |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": password}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _AsyncToken(broker.token if password == PASSWORD else "e30.e30.")

    async def run() -> None:
        producer = AIOKafkaProducer(**settings)
        try:
            await producer.start()
        except (AuthenticationFailedError, KafkaConnectionError) as error:
            await producer.stop()
            raise PermissionError(str(error)) from None
        try:
            await producer.send_and_wait(topic, b"aiokafka")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(**settings, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            await asyncio.wait_for(consumer.getone(), SECONDS_MAX)
        finally:
            await consumer.stop()

    asyncio.run(run())


Client = Callable[[SecuredBroker, str, str, str, str], None]
CLIENTS: tuple[Client, ...] = (with_librdkafka, with_kafka_python, with_aiokafka)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.removeprefix("with_"))
def test_a_client_proves_who_it_is_produces_and_consumes(
    secured: SecuredBroker, topic: str, client: Client, protocol: str, mechanism: str
) -> None:
    client(secured, protocol, mechanism, topic, PASSWORD)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.removeprefix("with_"))
def test_a_client_with_wrong_credentials_is_refused(
    request: pytest.FixtureRequest, secured: SecuredBroker, topic: str, client: Client, mechanism: str
) -> None:
    if is_apache_kafka(request) and client is with_aiokafka and mechanism == "OAUTHBEARER":
        pytest.skip("aiokafka sends a request although its token is refused, and never understands Kafka's answer")
    with pytest.raises(PermissionError):
        client(secured, "SASL_PLAINTEXT", mechanism, topic, "wrong-secret")


def test_a_client_without_sasl_is_not_served(secured: SecuredBroker) -> None:
    producer = Producer({"bootstrap.servers": secured.sasl_address, "socket.timeout.ms": 1000})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)
