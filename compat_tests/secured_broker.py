"""A broker with logins: a listener for each of PLAINTEXT, SASL_PLAINTEXT and SASL_SSL, one user, and bearer tokens.

Apache Kafka runs the same tests: it gets the same users and settings, and users of PLAIN in its own way.
"""

import base64
import json
import time
from dataclasses import dataclass
from pathlib import Path

import trustme
from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from free_ports import free_port

USER, PASSWORD = "alice", "alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LIFETIME_MS = 3000
"""How long a login lasts, so that every longer test has to repeat its login."""
AUDIENCE = "tailrace"


@dataclass
class SecuredBroker:
    """The addresses of a broker, and what its clients need."""

    open_address: str
    sasl_address: str
    tls_address: str
    authority: Path
    token_path: Path
    metrics: str

    def address(self, protocol: str) -> str:
        return self.tls_address if protocol == "SASL_SSL" else self.sasl_address

    @property
    def token(self) -> str:
        return self.token_path.read_text()

    def properties(self, protocol: str, mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        """Returns the settings of Java's clients and of `tailrace`."""
        found = {"security.protocol": protocol, "sasl.mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            found["sasl.oauthbearer.token.endpoint.url"] = self.token_path.as_uri()
        else:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            found["sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
            )
        if protocol == "SASL_SSL":
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        return found


class SecuredTailrace:
    """`tailrace up` with three listeners."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._server = Server(directory, "up", READY_LINE)
        self._directory = directory

    def start(self) -> SecuredBroker:
        directory = self._directory
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        certificate = authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(directory / "ca.pem")
        certificate.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
        write_bearer_files(directory)
        metrics = f"127.0.0.1:{free_port()}"
        settings = {
            "listener.security.protocol.map": "PUBLIC:PLAINTEXT,PUBLIC_1:SASL_PLAINTEXT,PUBLIC_2:SASL_SSL",
            "ssl.keystore.location": str(directory / "server.pem"),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "connections.max.reauth.ms": str(LIFETIME_MS),
        }
        listeners = [word for _ in range(3) for word in ("--public", "127.0.0.1:0")]
        given = [f"--set={name}={value}" for name, value in settings.items()]
        command = tailrace(
            "up", "--data", str(directory / "data"), *listeners, *FREE_PORTS, "--metrics", metrics, *given
        )
        ready = self._server.start(command)
        open_address, sasl_address, tls_address = ready.group(1).split(",")
        return SecuredBroker(
            open_address, sasl_address, tls_address, directory / "ca.pem", directory / "token", metrics
        )

    def stop(self) -> int:
        return self._server.stop()

    def errors(self) -> str:
        return self._server.errors()


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
