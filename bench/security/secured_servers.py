"""Brokers with a listener for each of Kafka's four security protocols: Tailrace, and Apache Kafka with the same files.

Both have the users alice and admin, who log in with PLAIN or SCRAM-SHA-256. Their certificate has a key of the curve
P-256. Clients of the listener PLAINTEXT are super users.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from free_ports import free_port
from peer.apache_kafka import ApacheKafka
from running_work import Access

USER, SUPER_USER, PASSWORD = "alice", "admin", "a-long-password"
OPEN, SASL, SSL, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
MECHANISMS = "PLAIN,SCRAM-SHA-256"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
}
RULES = 36
"""The number of access rules. Three of them are for what the work uses."""
QUOTA = 10 << 30
"""A quota in bytes per second that no client exceeds."""


class SecuredServer:
    """A broker, and how clients reach each of its listeners."""

    pid: int
    authority: Path
    addresses: Mapping[str, str]
    """The address of each listener, by its protocol."""

    def access(self, name: str, protocol: str, mechanism: str = "SCRAM-SHA-256", user: str = USER) -> Access:
        """Returns how clients use the listener with this protocol."""
        settings = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(self.authority)
        if protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": PASSWORD}
        return Access(name, self.addresses[protocol], settings)

    def create_users(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.addresses[OPEN], "log_level": 2})
        information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        wanted = [
            UserScramCredentialUpsertion(name, information, PASSWORD.encode(), b"0123456789abcdef")
            for name in (USER, SUPER_USER)
        ]
        for done in admin.alter_user_scram_credentials(wanted).values():
            done.result(30)

    def create_rules(self) -> None:
        """Lets alice read and write the topics of the bench, and creates rules for others as well."""
        admin = AdminClient({"bootstrap.servers": self.addresses[OPEN], "log_level": 2})
        operations = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        whom = [(f"User:{USER}", "bench-", ResourcePatternType.PREFIXED)]
        whom += [
            (f"User:user-{number}", f"topic-{number}", ResourcePatternType.LITERAL) for number in range(RULES // 3 - 1)
        ]
        rules = [
            AclBinding(ResourceType.TOPIC, name, kind, user, "*", operation, AclPermissionType.ALLOW)
            for user, name, kind in whom
            for operation in operations
        ]
        for done in admin.create_acls(rules).values():
            done.result(30)


class SecuredTailrace(SecuredServer):
    """`tailrace up` with four listeners."""

    def __init__(self, directory: Path, certificates: Path, settings: Mapping[str, str] | None = None) -> None:
        directory.mkdir()
        self.authority = certificates / "ca.pem"
        named = zip(("PUBLIC", "PUBLIC_1", "PUBLIC_2", "PUBLIC_3"), PROTOCOLS, strict=True)
        given = {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in named),
            "ssl.keystore.location": str(certificates / "server.pem"),
            "sasl.enabled.mechanisms": MECHANISMS,
            **(settings or {}),
        }
        self._server = Server(directory, "up", READY_LINE)
        self._words = ["--data", str(directory / "data"), *FREE_PORTS]
        self._words += [f"--set={name}={value}" for name, value in given.items()]

    def start(self) -> None:
        listeners = [word for _ in PROTOCOLS for word in ("--public", "127.0.0.1:0")]
        ready = self._server.start(tailrace("up", *listeners, *self._words))
        self.addresses = dict(zip(PROTOCOLS, ready.group(1).split(","), strict=True))
        self.pid = self._server.pid
        self.create_users()

    def set_quotas(self) -> None:
        """Gives alice quotas that she does not exceed."""
        words = ("quota", "set", "--user", USER, f"producer_byte_rate={QUOTA}", f"consumer_byte_rate={QUOTA}")
        subprocess.run(tailrace(*words, "--bootstrap", self.addresses[OPEN]), check=True, capture_output=True)

    def stop(self) -> None:
        self._server.stop()


class SecuredKafka(SecuredServer):
    """Apache Kafka with four listeners."""

    def __init__(self, directory: Path, certificates: Path) -> None:
        directory.mkdir()
        self.authority = certificates / "ca.pem"
        users = " ".join(f'user_{name}="{PASSWORD}"' for name in (USER, SUPER_USER))
        login = "org.apache.kafka.common.security"
        names = (*PROTOCOLS, "CONTROLLER")
        settings = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{OPEN if name == 'CONTROLLER' else name}" for name in names
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates / "server.pem"),
            "sasl.enabled.mechanisms": MECHANISMS,
        }
        for name in (SASL, SASL_SSL):
            prefix = f"listener.name.{name.lower()}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = f"{login}.plain.PlainLoginModule required {users};"
            settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{login}.scram.ScramLoginModule required;"
        self._broker = _WithFourListeners(directory, settings=settings)

    def start(self) -> None:
        self._broker.start()
        self.addresses, self.pid = self._broker.addresses, self._broker.pid
        self.create_users()

    def stop(self) -> None:
        self._broker.stop()


class _WithFourListeners(ApacheKafka):
    addresses: Mapping[str, str]

    def write_settings(self, name: str) -> None:
        """Writes the settings of a single node with more listeners."""
        super().write_settings(name)
        self.addresses = {OPEN: self.bootstrap} | {each: f"127.0.0.1:{free_port()}" for each in PROTOCOLS[1:]}
        listeners = ",".join(f"{protocol}://{address}" for protocol, address in self.addresses.items())
        text = self._settings.read_text()
        self._settings.write_text(text.replace(f"{OPEN}://{self.bootstrap}", listeners))
