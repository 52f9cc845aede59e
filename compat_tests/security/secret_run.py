"""A cluster with every kind of secret, and a record of everything that it and its commands write."""

import base64
import datetime
import ipaddress
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from cluster import FREE_PORTS, READY_LINE, Server, tailrace
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from free_ports import free_port

PASSWORD, NEW_PASSWORD, WRONG_PASSWORD = "alice-first-Xq7", "alice-later-Zw9", "alice-wrong-Kd3"
TOKEN_KEY, KEY_PASSWORD = "token-key-Pm5vL", "key-password-Rt8n"
SECONDS_MAX = 60
SETTINGS = """
data = "{directory}/data"
public = "127.0.0.1:0,127.0.0.1:0"
log-level = "debug"

[broker]
"listener.security.protocol.map" = "PUBLIC:PLAINTEXT,PUBLIC_1:SASL_SSL"
"sasl.enabled.mechanisms" = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"ssl.keystore.location" = "{directory}/server.pem"
"ssl.key.password" = "{key_password}"
"authorizer.class.name" = "tailrace"
"super.users" = "User:ANONYMOUS"
"delegation.token.secret.key" = "{token_key}"
"audit.log.enable" = "true"
"connection.failed.authentication.delay.ms" = "0"
"""
"""A file holds the settings, since everybody on a machine sees the command lines of all processes."""


class SecretRun:
    """The cluster. Anonymous clients come to the open listener and may do everything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.written: dict[str, bytes] = {}
        """What commands and other places have written, by their names."""
        self.open_address = self.secure_address = ""
        self._server = Server(directory, "up", READY_LINE)
        self._metrics = free_port()
        self.key = _make_keystore(directory)
        """The private key of the server, without its password."""

    def start(self) -> None:
        settings = SETTINGS.format(directory=self.directory, key_password=KEY_PASSWORD, token_key=TOKEN_KEY)
        (self.directory / "tailrace.toml").write_text(settings)
        ports = (*FREE_PORTS, "--metrics", f"127.0.0.1:{self._metrics}")
        command = tailrace("up", "--config", str(self.directory / "tailrace.toml"), *ports)
        self.open_address, self.secure_address = self._server.start(command).group(1).split(",")

    def stop(self) -> int:
        return self._server.stop()

    def errors(self) -> str:
        """Returns the log of the cluster."""
        return self._server.errors()

    def run(self, *words: str, given: str = "", config: Path | None = None, fails: bool = False) -> str:
        """Runs a command, keeps its output, and returns it. It asks the secure listener if it gets a `config`."""
        address = self.open_address if config is None else self.secure_address
        asked = () if words[0] in ("audit", "config") and words[1] != "describe" else ("--bootstrap", address)
        options = () if config is None else ("--client-config", str(config))
        done = subprocess.run(
            tailrace(*words, *asked, *options), input=given.encode(), capture_output=True, timeout=SECONDS_MAX
        )
        self.written[f"tailrace {' '.join(words)} ({len(self.written)})"] = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, done.stderr.decode()
        return done.stdout.decode()

    def properties(self, name: str, user: str, password: str, *, mechanism: str = "SCRAM-SHA-256") -> Path:
        """Writes the settings of a client, which are the one place where a password belongs."""
        token = ' tokenauth="true"' if user != "alice" else ""
        path = self.directory / f"{name}.properties"
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        path.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.directory}/ca.pem\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} "
            f'required username="{user}" password="{password}"{token};\n'
        )
        return path

    def scrape(self) -> None:
        """Keeps the metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=10) as response:
            self.written["metrics"] = response.read()

    def places(self) -> Iterator[tuple[str, bytes]]:
        """Yields everything that was written, with the place of each: also all files with data, logs and audits."""
        yield from self.written.items()
        for path in sorted(self.directory.rglob("*")):
            if path.is_file() and path.suffix not in (".properties", ".toml", ".pem"):
                yield str(path.relative_to(self.directory)), path.read_bytes()


def forms_of(secret: bytes) -> set[bytes]:
    """Returns the forms in which a secret could be written."""
    text = base64.b64encode(secret)
    return {secret, text, text.rstrip(b"="), base64.urlsafe_b64encode(secret), secret.hex().encode()} | {
        urllib.parse.quote_from_bytes(secret).encode()
    }


def token_in(output: str) -> tuple[str, str]:
    """Returns the id and the HMAC of the token in the output of Kafka's tool."""
    found = re.search(r"^([\w-]{22,36})\s+(\S+=)\s+User:", output, re.MULTILINE)
    assert found is not None, output
    return found[1], found[2]


def _make_keystore(directory: Path) -> bytes:
    """Writes a key with a password and its own certificate, and returns the key in DER without the password."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(KEY_PASSWORD.encode()))
    public = certificate.public_bytes(pem)
    (directory / "server.pem").write_bytes(encrypted + public)
    (directory / "ca.pem").write_bytes(public)
    return key.private_bytes(serialization.Encoding.DER, pkcs8, serialization.NoEncryption())
