"""Stock clients use a cluster over TLS, with and without certificates of their own, while certificates are renewed.

The cluster has two SPUs, whose links use TLS as well. `tailrace certificate` has made all certificates.
"""

import asyncio
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from cluster import READY_LINE, Server, tailrace
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives import serialization
from free_ports import free_port
from kafka import KafkaConsumer, KafkaProducer
from waiting import wait_until

KEY_PASSWORD = "password-of-the-key"
TOPIC = "encrypted"
SECONDS_MAX = 20


class EncryptedCluster:
    def __init__(self, directory: Path) -> None:
        self.certificates = directory / "certificates"
        self.server = Server(directory, "up", READY_LINE)
        self.metrics = f"127.0.0.1:{free_port()}"
        self.bootstrap = ""
        self._data = directory / "data"

    @property
    def authority(self) -> str:
        return str(self.certificates / "ca.pem")

    @property
    def certificate(self) -> Path:
        return self.certificates / "server.pem"

    def make_certificates(self) -> None:
        for more in ((), ("--user", "alice")):
            subprocess.run(tailrace("certificate", "make", str(self.certificates), *more), check=True, timeout=30)
        authority = Path(self.authority)  # Authorities are often published with comments.
        authority.write_bytes("# Behörde\n".encode() + authority.read_bytes())
        self.encrypt_key()

    def encrypt_key(self) -> None:
        """Encrypts the key of the servers with a password."""
        key, marker, chain = self.certificate.read_bytes().partition(b"-----BEGIN CERT")
        encrypted = serialization.load_pem_private_key(key, None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
        )
        new = self.certificates / "new.pem"
        new.write_bytes(encrypted + marker + chain)
        new.rename(self.certificate)

    def start(self) -> None:
        settings = {
            "listener.security.protocol.map": "PUBLIC:SSL,PRIVATE:SSL,METRICS:SSL",
            "ssl.keystore.location": str(self.certificate),
            "ssl.key.password": KEY_PASSWORD,
            "ssl.truststore.location": self.authority,
            "listener.name.public.ssl.client.auth": "required",
            "default.replication.factor": "2",
            "min.insync.replicas": "2",
        }
        where = ("--data", str(self._data), "--public", f"127.0.0.1:{free_port()}", "--metrics", self.metrics)
        ports = ("--sc", "127.0.0.1:0", "--sc-private", "127.0.0.1:0", "--private", "127.0.0.1:0")
        given = [f"--set={name}={value}" for name, value in settings.items()]
        self.bootstrap = self.server.start(tailrace("up", "--spus", "2", *where, *ports, *given)).group(1)

    def librdkafka(self, user: str | None = "alice") -> dict[str, str]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": self.authority,
        }
        if user is not None:
            settings |= {"ssl.certificate.location": self._pem(user), "ssl.key.location": self._pem(user)}
        return settings

    def kafka_python(self) -> dict[str, str]:
        return {
            "bootstrap_servers": self.bootstrap.split(",")[0],
            "security_protocol": "SSL",
            "ssl_cafile": self.authority,
            "ssl_certfile": self._pem("alice"),
        }

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self._pem("alice"))
        return context

    def _pem(self, user: str) -> str:
        return str(self.certificates / f"{user}.pem")


@pytest.fixture(scope="module")
def encrypted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptedCluster]:
    if request.config.getoption("--broker") != "tailrace":
        pytest.skip("Apache Kafka has no private ports")
    cluster = EncryptedCluster(tmp_path_factory.mktemp("encrypted"))
    cluster.make_certificates()
    cluster.start()
    try:
        admin = AdminClient(cluster.librdkafka())
        admin.create_topics([NewTopic(TOPIC, 2, 2)])[TOPIC].result(SECONDS_MAX)
        yield cluster
    finally:
        cluster.server.stop()


def test_kafka_python(encrypted: EncryptedCluster) -> None:
    producer = KafkaProducer(**encrypted.kafka_python(), acks="all")
    sent = producer.send(TOPIC, b"kafka-python" * 10_000, partition=0).get(SECONDS_MAX)
    producer.close()
    consumer = KafkaConsumer(
        TOPIC, **encrypted.kafka_python(), auto_offset_reset="earliest", consumer_timeout_ms=SECONDS_MAX * 1000
    )
    found = next(each for each in consumer if (each.partition, each.offset) == (0, sent.offset))
    assert found.value == b"kafka-python" * 10_000
    consumer.close()


def test_librdkafka_in_a_group(encrypted: EncryptedCluster) -> None:
    producer = Producer(encrypted.librdkafka() | {"acks": "all", "linger.ms": "5"})
    for number in range(3000):
        producer.produce(TOPIC, b"%d" % number + b"x" * 1000, key=b"librdkafka")
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer(encrypted.librdkafka() | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    count = 0
    while count < 3000:
        messages = consumer.consume(1000, SECONDS_MAX)
        assert messages
        count += sum(each.key() == b"librdkafka" for each in messages)
    consumer.close()


def test_aiokafka(encrypted: EncryptedCluster) -> None:
    async def run() -> bytes:
        where = {
            "bootstrap_servers": encrypted.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": encrypted.client_context(),
        }
        async with AIOKafkaProducer(**where) as producer:
            sent = await producer.send_and_wait(TOPIC, b"aiokafka", partition=1)
        async with AIOKafkaConsumer(**where) as consumer:
            partition = TopicPartition(TOPIC, 1)
            consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            value = (await consumer.getone()).value
            assert isinstance(value, bytes)
            return value

    assert asyncio.run(asyncio.wait_for(run(), SECONDS_MAX)) == b"aiokafka"


def test_a_client_without_a_certificate_is_refused_and_logged(encrypted: EncryptedCluster) -> None:
    with pytest.raises(KafkaException):
        AdminClient(encrypted.librdkafka(None)).list_topics(timeout=3)
    (line, *_) = [each for each in encrypted.server.errors().splitlines() if "handshake_refused" in each]
    assert "the client has shown no certificate" in line


def test_certificates_are_renewed_while_clients_are_connected(encrypted: EncryptedCluster) -> None:
    host, port = encrypted.bootstrap.split(",")[0].split(":")

    def fingerprint() -> str:
        return ssl.get_server_certificate((host, int(port)))

    producer = KafkaProducer(**encrypted.kafka_python(), acks="all", metadata_max_age_ms=1000)
    producer.send(TOPIC, b"before", partition=0).get(SECONDS_MAX)
    before = fingerprint()
    renew = tailrace("certificate", "renew", str(encrypted.certificate))
    # The command makes a key without a password, which is fine: the password is not needed then.
    subprocess.run(renew, check=True, timeout=30)
    wait_until(lambda: fingerprint() != before, what="the certificate is reloaded")
    producer.send(TOPIC, b"after", partition=0).get(SECONDS_MAX)
    producer.close()
    assert "certificate_reloaded" in encrypted.server.errors()


def test_metrics_are_scraped_over_https(encrypted: EncryptedCluster) -> None:
    context = ssl.create_default_context(cafile=encrypted.authority)
    with urllib.request.urlopen(f"https://{encrypted.metrics}/metrics", timeout=SECONDS_MAX, context=context) as page:
        assert b"tailrace_refused_handshakes" in page.read()


def test_the_password_of_the_key_is_on_no_command_line(encrypted: EncryptedCluster) -> None:
    children = [
        path.read_text()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"{encrypted.certificates.parent}/data/spu-" in _text(path)
    ]
    assert len(children) == 2
    assert not any(KEY_PASSWORD in each for each in children)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # The process has ended.
