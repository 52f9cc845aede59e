"""Stock clients log in with every mechanism, with and without TLS, and wrong credentials are refused."""

import asyncio
import ssl
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonError
from kafka.net.sasl.oauth import AbstractTokenProvider
from secured_broker import LIFETIME_MS, MECHANISMS, PASSWORD, USER, SecuredBroker
from topics import topic_creator

PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
SECONDS_MAX = 20


@pytest.fixture(scope="module")
def topic(secured: SecuredBroker) -> str:
    return topic_creator(secured.open_address, "logins")()


def librdkafka(broker: SecuredBroker, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """Returns the settings of a client of librdkafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.address(protocol),
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(broker.authority),
    }
    if mechanism == "OAUTHBEARER":
        token = broker.token if password == PASSWORD else "e30.e30."
        return settings | {"oauth_cb": lambda _: (token, time.time() + 3600)}
    return settings | {"sasl.username": USER, "sasl.password": password}


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
        "sasl_mechanism": mechanism,
        "ssl_cafile": str(broker.authority),
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }
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
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }
    if protocol == "SASL_SSL":
        settings["ssl_context"] = ssl.create_default_context(cafile=str(broker.authority))
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


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.removeprefix("with_"))
def test_a_client_logs_in_produces_and_consumes(
    secured: SecuredBroker, topic: str, client: Client, protocol: str, mechanism: str
) -> None:
    client(secured, protocol, mechanism, topic, PASSWORD)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__.removeprefix("with_"))
def test_a_client_with_wrong_credentials_is_refused(
    secured: SecuredBroker, topic: str, client: Client, mechanism: str
) -> None:
    with pytest.raises(PermissionError):
        client(secured, "SASL_PLAINTEXT", mechanism, topic, "wrong-secret")


def test_a_transaction_outlives_several_logins(secured: SecuredBroker, topic: str) -> None:
    """librdkafka's own test 0142 checks the same: it logs in again in the middle of a transaction."""
    before = logins(secured, "repeated")
    producer = Producer(librdkafka(secured, "SASL_SSL", "SCRAM-SHA-512") | {"transactional.id": "long"})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    failures: list[KafkaError] = []
    began, sent = time.monotonic(), 0
    while time.monotonic() - began < 2 * LIFETIME_MS / 1000 + 1:
        producer.produce(topic, str(sent), on_delivery=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(SECONDS_MAX) == 0
        sent += 1
        producer.poll(0.1)  # the load is small, so that the test takes its time in the transaction
    producer.commit_transaction(SECONDS_MAX)
    assert not failures
    assert logins(secured, "repeated") >= before + 2


def test_a_client_without_sasl_is_not_served(secured: SecuredBroker) -> None:
    producer = Producer({"bootstrap.servers": secured.sasl_address, "socket.timeout.ms": 1000})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)


def logins(broker: SecuredBroker, kind: str) -> float:
    """Returns a count of logins from the metrics."""
    with urllib.request.urlopen(f"http://{broker.metrics}/metrics") as response:
        text = response.read().decode()
    (line,) = [line for line in text.splitlines() if line.startswith(f"tailrace_{kind}_logins_total ")]
    return float(line.split()[1])
