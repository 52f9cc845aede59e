"""The audit logs of a cluster in a topic, and the commands about delegation tokens, on one running cluster."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.timeout(180)
SECONDS_MAX = 60.0
PASSWORD = "alice-secret"
SETTINGS = {
    "listener.security.protocol.map": "PUBLIC:PLAINTEXT,PUBLIC_1:SASL_PLAINTEXT",
    "authorizer.class.name": "tailrace",
    "super.users": "User:ANONYMOUS",
    "listener.name.public_1.connections.max.reauth.ms": "1500",
    "audit.log.enable": "true",
    "audit.log.topic": "audit",
}


class Audited:
    """`tailrace up` with two SPUs. Anonymous clients may do everything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self._server = Server(directory, "up", READY_LINE)
        self.open_address = self.login_address = ""

    def start(self) -> None:
        listeners = [word for _ in range(2) for word in ("--public", "127.0.0.1:0")]
        given = [f"--set={name}={value}" for name, value in SETTINGS.items()]
        ports = (*listeners, *FREE_PORTS, "--metrics", "off")
        command = tailrace("up", "--data", str(self.data), "--spus", "2", *ports, *given)
        environment = {"TAILRACE_BROKER_DELEGATION_TOKEN_SECRET_KEY": "token-key"}
        os.environ.update(environment)
        try:
            ready = self._server.start(command)
        finally:
            for name in environment:
                del os.environ[name]
        self.open_address, self.login_address = ready.group(1).split(",")[:2]

    def stop(self) -> int:
        return self._server.stop()

    def run(self, *words: str, config: Path | None = None, given: str = "") -> subprocess.CompletedProcess[str]:
        """Runs `tailrace` as the super user, or with the file of a client."""
        where = ("--bootstrap", self.open_address)
        if config is not None:
            where = ("--bootstrap", self.login_address, "--client-config", str(config))
        return subprocess.run(tailrace(*words, *where), input=given, capture_output=True, text=True, timeout=60)

    def done(self, *words: str, config: Path | None = None, given: str = "") -> str:
        """Runs `tailrace`, which succeeds, and returns what it prints."""
        done = self.run(*words, config=config, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, user: str, password: str, **settings: str) -> dict[str, str]:
        """Returns the settings of a client of librdkafka."""
        return {
            "bootstrap.servers": self.login_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def properties(self, name: str, user: str, password: str, *, is_token: bool = False) -> Path:
        """Writes the settings of a client of `tailrace`."""
        path = self.directory / f"{name}.properties"
        token = ' tokenauth="true"' if is_token else ""
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{password}"{token};\n'
        )
        return path

    def wait_for_event(self, *words: str) -> list[dict[str, object]]:
        """Waits until the topic has events of this kind, and returns them."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            done = self.run("audit", "show", "--topic", "audit", "-o", "json", *words)
            events = [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []
            if events:
                return events
            assert time.monotonic() < until, (words, done.stderr, self._server.errors())


@pytest.fixture(scope="module")
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    if request.config.getoption("--bootstrap") or request.config.getoption("--broker") == "apache-kafka":
        pytest.skip("Apache Kafka has no audit log")
    cluster = Audited(tmp_path_factory.mktemp("audited"))
    cluster.start()
    try:
        cluster.done("user", "create", "alice", "--password-stdin", given=PASSWORD)
        cluster.done("topic", "create", "orders")
        cluster.done("acl", "create", "alice", "all", "--topic", "orders", "--group", "g")
        yield cluster
    finally:
        assert cluster.stop() == 0


def test_the_topic_has_what_sc_and_spus_recorded(audited: Audited) -> None:
    change = audited.wait_for_event("--resource", "TOPIC:orders", "--event", "change")[0]
    assert (change["server"], change["outcome"]) == ("sc", "done")
    admin = AdminClient(audited.client("mallory", "wrong"))
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    failed = audited.wait_for_event("--event", "authentication", "--outcome", "failed")
    assert {str(each["server"])[:4] for each in failed} == {"spu-"}
    assert failed[0]["resource"] == "USER:mallory"
    keys = sorted(audited.data.glob("*/audit/verification-key.pem"))
    given = [word for key in keys for word in ("--key", str(key))]
    verified = audited.done("audit", "verify", "--topic", "audit")
    assert re.search(r"^audit sc-\w{8}: intact, \d+ events$", verified, re.MULTILINE)
    # Of the SPUs, perhaps only one had anything to record.
    named = audited.run("audit", "verify", "--topic", "audit", *given)
    assert "is none of those that were given" not in named.stdout
    only_one = audited.run("audit", "verify", "--topic", "audit", *given[:2])
    assert only_one.returncode == 1 and "is none of those that were given" in only_one.stdout


def test_lines_wait_while_the_topic_takes_none(audited: Audited) -> None:
    audited.wait_for_event()
    audited.done("config", "set", "topic", "audit", "max.message.bytes=1")
    audited.done("topic", "create", "late")
    producer = Producer({"bootstrap.servers": audited.open_address, "acks": "all"})
    producer.produce("late", b"no client waits for the audit log")
    assert producer.flush(30) == 0
    audited.done("config", "set", "topic", "audit", "max.message.bytes=1048588")
    audited.wait_for_event("--resource", "TOPIC:late", "--event", "change")
    assert "damage" not in audited.done("audit", "verify", "--topic", "audit")


def test_a_record_of_somebody_else_is_found(audited: Audited) -> None:
    audited.done("topic", "create", "forged")
    producer = Producer({"bootstrap.servers": audited.open_address})
    producer.produce("forged", b'{"n":1,"event":"change"}', key=b"spu-1")
    assert producer.flush(30) == 0
    done = audited.run("audit", "verify", "--topic", "forged")
    assert done.returncode == 2 and "there is no audit log in the topic forged" in done.stderr


def test_a_long_run_logs_in_again_unnoticed(audited: Audited) -> None:
    alice = audited.properties("alice", "alice", PASSWORD)
    where = ("--bootstrap", audited.login_address, "--client-config", str(alice))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    audited.done("topic", "create", "long")
    audited.done("acl", "create", "alice", "all", "--topic", "long")
    follow = ("consume", "long", "--from", "beginning", "--follow", "--values")
    with (
        subprocess.Popen(tailrace(*follow, *where), **pipes) as reader,  # type: ignore[call-overload]
        subprocess.Popen(tailrace("produce", "long", *where), **pipes) as writer,  # type: ignore[call-overload]
    ):
        # Both have connections for three sessions and more.
        until, number = time.monotonic() + 5.0, 0
        while time.monotonic() < until:
            number += 1
            writer.stdin.write(b"%d\n" % number)
            writer.stdin.flush()
            assert reader.stdout.readline() == b"%d\n" % number
        _, said = writer.communicate(timeout=30)
        reader.terminate()
        _, complained = reader.communicate(timeout=30)
    assert (writer.returncode, complained) == (0, b""), said
    assert b"login" not in said and number > 3


def test_a_token_is_created_used_renewed_and_expired(audited: Audited) -> None:
    alice = audited.properties("alice", "alice", PASSWORD)
    refused = audited.run("token", "create")
    assert refused.returncode == 1 and "give --client-config" in refused.stderr
    created = json.loads(audited.done("token", "create", "--renewer", "bob", "-o", "json", config=alice))
    (listed,) = json.loads(audited.done("token", "list", "-o", "json", config=alice))
    assert listed == {name: value for name, value in created.items() if name != "hmac"}
    assert (listed["owner"], listed["renewers"]) == ("User:alice", ["User:bob"])
    token, hmac = created["token"], created["hmac"]

    worker = audited.properties("worker", token, hmac, is_token=True)
    audited.done("produce", "orders", config=worker, given="as alice\n")
    # librdkafka has no extensions of SCRAM, so that only the owner's password works with it.
    consumer = Consumer(audited.client("alice", PASSWORD, group_id="g", auto_offset_reset="earliest"))
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    assert message is not None and message.value() == b"as alice"
    consumer.close()

    renewed = json.loads(audited.done("token", "renew", token, "--for", "2h", "-o", "json", config=alice))
    assert renewed["expires"] < created["expires"] < created["renewableUntil"]
    assert audited.run("token", "list", config=worker).returncode == 1
    audited.done("token", "expire", token, config=alice)
    assert audited.done("token", "list", "-o", "json", config=alice).strip() == "[]"
    late = audited.run("produce", "orders", config=worker, given="too late\n")
    assert late.returncode == 1 and hmac not in late.stderr
    gone = audited.run("token", "renew", token, config=alice)
    assert gone.returncode == 1 and f"there is no token {token} that you may see" in gone.stderr
