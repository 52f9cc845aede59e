"""`tailrace up --secure`: a stranger gets nowhere, the first user does everything, and another user what rules say."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

PASSWORD = re.compile(r"the user admin has the password (\S+) \(shown only now\)")
SECONDS_MAX = 30


class Secured:
    """A secured cluster of two SPUs, so that servers talk to each other as well."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self.server = Server(directory, "up", READY_LINE)
        self.bootstrap = ""
        self.environment = os.environ | {"TAILRACE_CLIENT_CONFIG": str(self.data / "security" / "client.properties")}

    def start(self, *options: str) -> None:
        where = ("--data", str(self.data), "--public", "127.0.0.1:0", *FREE_PORTS, "--metrics", "off")
        ready = self.server.start(tailrace("up", *where, *options))
        self.bootstrap = ready[1]
        self.environment |= {"TAILRACE_SC": ready[2], "TAILRACE_BOOTSTRAP": ready[1]}

    def passwords(self) -> list[str]:
        """Returns the passwords that all starts have printed."""
        return PASSWORD.findall(self.server.errors())

    def run(self, *command: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            tailrace(*command),
            input=text,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS_MAX,
            check=False,
        )

    def settings(self, user: str, password: str) -> dict[str, object]:
        """Returns the settings of a client on librdkafka."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.data / "security" / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    cluster = Secured(tmp_path_factory.mktemp("secured"))
    try:
        cluster.start("--secure", "--spus", "2", "--topic", "orders:2:2")
        yield cluster
    finally:
        cluster.server.kill()


@pytest.fixture(scope="module")
def admin(secured: Secured) -> str:
    """The password of the first user, which is printed once."""
    (password,) = secured.passwords()
    return password


def produce(settings: dict[str, object], value: bytes) -> KafkaError | None:
    """Produces one record to the topic orders, and returns why it was refused."""
    outcomes: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 10_000})
    producer.produce("orders", value, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(SECONDS_MAX)
    (outcome,) = outcomes
    return outcome


def consume(settings: dict[str, object]) -> list[bytes | None]:
    consumer = Consumer({**settings, "group.id": "alice", "enable.partition.eof": True})
    values = []
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        while (message := consumer.poll(SECONDS_MAX)) is not None:
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:
                    return values
                raise KafkaException(message.error())
            values.append(message.value())
    finally:
        consumer.close()
    raise AssertionError("the consumer got nothing")


def test_strangers_get_nowhere(secured: Secured, admin: str) -> None:
    plain = AdminClient({"bootstrap.servers": secured.bootstrap})
    with pytest.raises(KafkaException):
        plain.list_topics(timeout=2)
    errors: list[KafkaError] = []
    wrong = AdminClient({**secured.settings("admin", admin + "x"), "error_cb": errors.append})
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=2)
    wrong.poll(0)
    assert KafkaError._AUTHENTICATION in {each.code() for each in errors}
    answer = secured.run("topic", "list", TAILRACE_CLIENT_CONFIG="")
    assert answer.returncode == 3 and "Traceback" not in answer.stderr, answer


def test_the_first_user_does_everything_with_clients_and_commands(secured: Secured, admin: str) -> None:
    assert produce(secured.settings("admin", admin), b"first") is None
    assert b"first" in consume(secured.settings("admin", admin))
    written = secured.run("produce", "orders", text="second\n")
    assert written.returncode == 0, written
    read = secured.run("consume", "orders", "--from", "beginning", "--count", "2")
    assert "first" in read.stdout and "second" in read.stdout, read


def test_another_user_may_do_what_rules_allow(secured: Secured) -> None:
    created = secured.run("user", "create", "alice", "--password-stdin", text="correct horse battery\n")
    assert created.returncode == 0, created
    alice = secured.settings("alice", "correct horse battery")
    refused = produce(alice, b"from alice")
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allowed = secured.run("acl", "create", "alice", "write", "--topic", "orders")
    assert allowed.returncode == 0, allowed
    assert produce(alice, b"from alice") is None
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        consume(alice)


def test_a_restart_keeps_the_cluster_closed_and_the_password(secured: Secured, admin: str) -> None:
    assert secured.server.stop() == 0
    secured.start()
    assert secured.passwords() == [admin]
    assert produce(secured.settings("admin", admin), b"later") is None
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": secured.bootstrap}).list_topics(timeout=2)


TRIGGER = """
from tailrace.trigger import trigger


@trigger("letters", group="shouting", seek_to="earliest", access_user="shouter", access_key="shouter-secret")
def shout(context, event):
    context.emit("shouts", event.body.upper())
"""
PAGE = Path(__file__).parents[2] / "docs" / "first-day.md"


def test_the_first_day_page_closes_a_cluster(secured: Secured) -> None:
    section = PAGE.read_text().partition("\n## Close the cluster\n")[2].partition("\n## ")[0]
    start, more = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert start.startswith("tailrace up --secure ")
    export, *commands = more.splitlines()
    assert export.startswith("export TAILRACE_CLIENT_CONFIG=")
    for command in commands:
        done = secured.run(*shlex.split(command)[1:])
        assert done.returncode == 0, (command, done)
    assert "Yes, because" in done.stdout


def test_groups_transactions_and_triggers_work_in_a_closed_cluster(
    secured: Secured, admin: str, tmp_path: Path
) -> None:
    producer = Producer({**secured.settings("admin", admin), "transactional.id": "writer"})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce("letters", b"hello")
    producer.commit_transaction(SECONDS_MAX)
    listed = secured.run("transaction", "list")
    assert "writer" in listed.stdout, listed
    read = secured.run("consume", "letters", "--group", "readers", "--from", "beginning", "--count", "1")
    assert "hello" in read.stdout, read
    described = secured.run("group", "describe", "readers")
    assert described.returncode == 0 and "letters" in described.stdout, described

    function = tmp_path / "shout.py"
    function.write_text(TRIGGER)
    assert secured.run("topic", "create", "shouts").returncode == 0
    created = secured.run("user", "create", "shouter", "--password-stdin", text="shouter-secret\n")
    assert created.returncode == 0, created
    for rule in (("read", "--topic", "letters", "--group", "shouting"), ("write", "--topic", "shouts")):
        assert secured.run("acl", "create", "shouter", *rule).returncode == 0
    deployed = secured.run("trigger", "deploy", str(function), "--wait", str(SECONDS_MAX))
    assert deployed.returncode == 0, deployed
    shouted = secured.run("consume", "shouts", "--from", "beginning", "--follow", "--count", "1")
    said = secured.run("trigger", "logs", "shout")
    assert "HELLO" in shouted.stdout, (shouted, said)
    assert "access_key_not_needed" not in said.stdout, "it has logged in as somebody else"
    assert secured.run("trigger", "delete", "shout").returncode == 0


def test_the_doctor_finds_nothing_open(secured: Secured) -> None:
    done = secured.run("doctor", "--output", "json")
    (access,) = [each for each in json.loads(done.stdout)["findings"] if each["subject"] == "access"]
    assert access["level"] == "ok" and "none allows anything to everybody" in access["text"]
