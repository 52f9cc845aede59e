"""A broker with access rules: an open listener for a super user, and one on which alice logs in."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from peer.apache_kafka import ApacheKafka

USER, PASSWORD = "alice", "alice-secret"
MECHANISM = "SCRAM-SHA-256"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key": "a secret key of this test",
}
LISTENERS = {"listener.security.protocol.map": "PUBLIC:PLAINTEXT,PUBLIC_1:SASL_PLAINTEXT"}


@dataclass
class GuardedBroker:
    """The addresses of the two listeners. Clients of the open one may do everything."""

    open_address: str
    login_address: str

    def run(self, *words: str) -> str:
        """Runs `tailrace` as the super user and returns what it prints."""
        command = tailrace(*words, "--bootstrap", self.open_address)
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    def asks(self, *words: str) -> tuple[int, str]:
        """Runs `tailrace` as the super user; returns the exit status and what it prints."""
        command = tailrace(*words, "--bootstrap", self.open_address)
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout

    def librdkafka(self, **settings: Any) -> dict[str, Any]:
        """Returns the settings of a client of librdkafka that logs in as alice."""
        return {
            "bootstrap.servers": self.login_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def kafka_python(self, **settings: Any) -> dict[str, Any]:
        """Returns the settings of a client of kafka-python that logs in as alice."""
        return {
            "bootstrap_servers": self.login_address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
            **settings,
        }

    def properties(self, user: str = USER, password: str = PASSWORD, *, is_token: bool = False) -> str:
        """Returns the settings of Java's clients and of `tailrace`, with which a user or a token logs in."""
        token = ' tokenauth="true"' if is_token else ""
        return (
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={MECHANISM}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{user}" password="{password}"{token};\n'
        )


class GuardedTailrace:
    """`tailrace up` with an authorizer."""

    def __init__(self, directory: Path) -> None:
        self._server = Server(directory, "up", READY_LINE)
        self._directory = directory

    def start(self) -> GuardedBroker:
        listeners = [word for _ in range(2) for word in ("--public", "127.0.0.1:0")]
        given = [f"--set={name}={value}" for name, value in (SETTINGS | LISTENERS).items()]
        data = str(self._directory / "data")
        ready = self._server.start(tailrace("up", "--data", data, *listeners, *FREE_PORTS, *given))
        broker = GuardedBroker(*ready.group(1).split(","))
        create = tailrace("user", "create", USER, "--password-stdin", "--bootstrap", broker.open_address)
        subprocess.run(create, input=PASSWORD.encode(), check=True, timeout=30)
        return broker

    def stop(self) -> int:
        return self._server.stop()


class GuardedApacheKafka:
    """Apache Kafka with the same settings. It matches patterns of groups again after the shortest time that it allows:
    a new rule shows no topic to a member before that."""

    def __init__(self, directory: Path) -> None:
        settings = SETTINGS | {"group.consumer.regex.refresh.interval.ms": "10000"}
        self._kafka = ApacheKafka(directory, settings=settings, listeners=("SASL_PLAINTEXT",), users={USER: PASSWORD})

    def start(self) -> GuardedBroker:
        self._kafka.start()
        return GuardedBroker(self._kafka.bootstrap, self._kafka.addresses["SASL_PLAINTEXT"])

    def stop(self) -> int:
        return self._kafka.stop()
