"""A broker with a listener for each of PLAINTEXT, SASL_PLAINTEXT, SASL_SSL and SSL, one user, and bearer tokens.

Clients log in on the listeners with SASL. On the listener SSL, they have to show a certificate. The Streaming
Controller expects SASL_SSL. `tailrace certificate` makes all certificates. The listener SSL has its own in a store of
Java.
"""

import base64
import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from free_ports import free_port
from peer.apache_kafka import LONG_LIVED, ApacheKafka

USER, PASSWORD = "alice", "alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LIFETIME_MS = 3000
"""How long a login lasts, so that every longer test has to repeat its login."""
AUDIENCE = "tailrace"
STORE_PASSWORD = "store-secret"
CERTIFICATE = "certificate"
"""Stands for a client certificate where others name a mechanism of SASL."""
WAYS = tuple(
    [(protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]
    + [("SSL", CERTIFICATE)]
)
"""Every way in which a client proves who it is."""
JAVA = "org.apache.kafka.common.security"
"""The package of Kafka's Java client that has its classes for logins."""
NO_SETTINGS: Mapping[str, str] = {}


@dataclass
class SecuredBroker:
    """The addresses of a broker, and what its clients need."""

    open_address: str
    sasl_address: str
    tls_address: str
    certificate_address: str
    sc_address: str
    """The address of the Streaming Controller; empty for Apache Kafka, which has none."""
    authority: Path
    certificate: Path
    """A PEM file with the private key and the certificate of the user."""
    token_path: Path
    metrics: str | None
    """The address of the metrics, which only Tailrace has."""

    def address(self, protocol: str) -> str:
        return {
            "PLAINTEXT": self.open_address,
            "SASL_PLAINTEXT": self.sasl_address,
            "SASL_SSL": self.tls_address,
            "SSL": self.certificate_address,
        }[protocol]

    @property
    def token(self) -> str:
        return self.token_path.read_text()

    def properties(self, protocol: str, mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        """Returns the settings of Java's clients and of `tailrace`."""
        found = {"security.protocol": protocol}
        if protocol.startswith("SASL"):
            found["sasl.mechanism"] = mechanism
        if mechanism == CERTIFICATE:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.certificate)}
        elif mechanism == "OAUTHBEARER":
            found |= {
                "sasl.oauthbearer.token.endpoint.url": self.token_path.as_uri(),
                "sasl.login.callback.handler.class": f"{JAVA}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f"{JAVA}.oauthbearer.OAuthBearerLoginModule required;",
            }
        else:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            found["sasl.jaas.config"] = f'{JAVA}.{module} required username="{user}" password="{password}";'
        if protocol.endswith("SSL"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        return found


class SecuredTailrace:
    """`tailrace up` with four listeners, and with other settings where a test needs them."""

    def __init__(self, directory: Path, other: Mapping[str, str] = NO_SETTINGS) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._server = Server(directory, "up", READY_LINE)
        self._directory = directory
        self._other = other

    def start(self) -> SecuredBroker:
        directory = self._directory
        write_files(directory)
        metrics = f"127.0.0.1:{free_port()}"
        settings = {
            "listener.security.protocol.map": "PUBLIC:SASL_SSL,PUBLIC_1:SASL_PLAINTEXT,PUBLIC_2:SSL,PUBLIC_3:PLAINTEXT",
            "ssl.keystore.location": str(directory / "server.pem"),
            "ssl.truststore.location": str(directory / "ca.pem"),
            "listener.name.public_2.ssl.client.auth": "required",
            "listener.name.public_2.ssl.keystore.location": str(directory / "server.p12"),
            "listener.name.public_2.ssl.keystore.type": "PKCS12",
            "listener.name.public_2.ssl.keystore.password": STORE_PASSWORD,
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connections.max.reauth.ms": str(LIFETIME_MS),
            **self._other,
        }
        listeners = [word for _ in range(4) for word in ("--public", "127.0.0.1:0")]
        given = [f"--set={name}={value}" for name, value in settings.items()]
        command = tailrace(
            "up", "--data", str(directory / "data"), *listeners, *FREE_PORTS, "--metrics", metrics, *given
        )
        ready = self._server.start(command)
        tls_address, sasl_address, certificate_address, open_address = ready[1].split(",")
        broker = SecuredBroker(
            open_address,
            sasl_address,
            tls_address,
            certificate_address,
            ready[2],
            directory / "ca.pem",
            directory / f"{USER}.pem",
            directory / "token",
            metrics,
        )
        create = tailrace("user", "create", USER, "--password-stdin", "--bootstrap", open_address)
        subprocess.run(create, input=PASSWORD.encode(), check=True, timeout=30)
        return broker

    def stop(self) -> int:
        return self._server.stop()

    def errors(self) -> str:
        return self._server.errors()


class SecuredApacheKafka:
    """Apache Kafka with the same listeners, user and bearer tokens."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        keys = (directory / "keys.json").as_uri()
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connections.max.reauth.ms": str(LIFETIME_MS),
        }
        for protocol in ("sasl_plaintext", "sasl_ssl"):
            settings |= {
                f"listener.name.{protocol}.oauthbearer.sasl.server.callback.handler.class": (
                    f"{JAVA}.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
                f"listener.name.{protocol}.oauthbearer.sasl.jaas.config": (
                    f"{JAVA}.oauthbearer.OAuthBearerLoginModule required;"
                ),
                f"listener.name.{protocol}.sasl.oauthbearer.jwks.endpoint.url": keys,
            }
        self._kafka = ApacheKafka(
            directory,
            (*LONG_LIVED, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"),
            settings=settings,
            listeners=("SASL_PLAINTEXT", "SASL_SSL", "SSL"),
            users={USER: PASSWORD},
        )

    def start(self) -> SecuredBroker:
        directory, kafka = self._directory, self._kafka
        write_files(directory)
        kafka.start()
        return SecuredBroker(
            kafka.bootstrap,
            kafka.addresses["SASL_PLAINTEXT"],
            kafka.addresses["SASL_SSL"],
            kafka.addresses["SSL"],
            "",
            directory / "ca.pem",
            directory / f"{USER}.pem",
            directory / "token",
            None,
        )

    def stop(self) -> int:
        return self._kafka.stop()

    def errors(self) -> str:
        return (self._directory / "errors").read_text()


def write_files(directory: Path) -> None:
    """Writes the certificates of a server and of the user, keys, and a bearer token."""
    for more in ((), ("--user", USER)):
        make = tailrace("certificate", "make", str(directory), *more)
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, timeout=30)
    write_java_store(directory)
    write_bearer_files(directory)


def write_java_store(directory: Path) -> None:
    """Writes the key and the certificates of the server as a store of Java."""
    pem = (directory / "server.pem").read_bytes()
    own, *others = x509.load_pem_x509_certificates(pem)
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    store = pkcs12.serialize_key_and_certificates(b"server", key, own, others, encryption)
    (directory / "server.p12").write_bytes(store)


def write_bearer_files(directory: Path) -> None:
    """Writes a key set, and a token that its key has signed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = key.public_key().public_numbers()
    jwk = {
        "kty": "RSA",
        "kid": "test",
        "use": "sig",
        "alg": "RS256",
        "n": _base64(numbers.n.to_bytes(256, "big")),
        "e": _base64(numbers.e.to_bytes(3, "big")),
    }
    (directory / "keys.json").write_text(json.dumps({"keys": [jwk]}))
    now = int(time.time())
    claims = {"sub": USER, "aud": AUDIENCE, "iss": "https://issuer.example", "iat": now, "exp": now + 3600}
    signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "test"}, claims))
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    (directory / "token").write_text(f"{signed}.{_base64(signature)}")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
