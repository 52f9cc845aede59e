"""A user of a secured broker, with ready settings for clients."""

import ssl
from typing import Any

from msgspec import Struct

MECHANISM = "SCRAM-SHA-256"
_JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


class ClientLogin(Struct, frozen=True):
    """A user, and how clients log in as this user. Each method returns new settings, to which others may be added."""

    bootstrap: str
    """The addresses of the brokers."""
    name: str
    password: str
    authority: str
    """The file with the certificate that signs those of the brokers. It exists while the broker runs."""

    @property
    def principal(self) -> str:
        """The user as access rules name it."""
        return f"User:{self.name}"

    def librdkafka(self) -> dict[str, Any]:
        """Returns the settings of clients that build on librdkafka, such as confluent-kafka."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority,
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.name,
            "sasl.password": self.password,
        }

    def kafka_python(self) -> dict[str, Any]:
        """Returns the arguments of kafka-python's clients."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.authority,
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": self.name,
            "sasl_plain_password": self.password,
        }

    def aiokafka(self) -> dict[str, Any]:
        """Returns the arguments of aiokafka's clients."""
        found = self.kafka_python()
        del found["ssl_cafile"]
        return {**found, "ssl_context": self.ssl_context()}

    def java(self) -> dict[str, str]:
        """Returns the properties of Java's clients and tools; Spark takes them with `kafka.` in front of the names."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": _JAAS.format(self.name, self.password),
        }

    def ssl_context(self) -> ssl.SSLContext:
        """Returns a TLS context that trusts the brokers, and no other servers."""
        return ssl.create_default_context(cafile=self.authority)
