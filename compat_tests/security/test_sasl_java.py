"""Java's producer logs in with every mechanism, and again while it sends."""

import subprocess
from pathlib import Path

import clients
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java
from secured_broker import LIFETIME_MS, MECHANISMS, SecuredBroker
from topics import topic_creator

PROGRAM = Path(clients.__path__[0], "Logins.java")
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
SECONDS_MAX = 50


def test_java_logs_in_with_every_mechanism(secured: SecuredBroker, tmp_path: Path) -> None:
    topic = topic_creator(secured.open_address, "java-logins")()
    cases = [("SASL_PLAINTEXT", "SCRAM-SHA-256"), *(("SASL_SSL", mechanism) for mechanism in MECHANISMS)]
    expected = {}
    for protocol, mechanism in cases:
        path = tmp_path / f"{protocol}-{mechanism}"
        expected[str(path)] = "sent"
        settings = secured.properties(protocol, mechanism) | {"bootstrap.servers": secured.address(protocol)}
        if mechanism == "OAUTHBEARER":
            settings |= {
                "sasl.login.callback.handler.class": HANDLER,
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            }
        _write(path, settings)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        path = tmp_path / f"wrong-{mechanism}"
        expected[str(path)] = "refused"
        settings = secured.properties("SASL_PLAINTEXT", mechanism, password="wrong-secret")
        _write(path, settings | {"bootstrap.servers": secured.sasl_address})
    urls = f"{ALLOWED}.urls={secured.token_path.as_uri()}", f"{ALLOWED}.files={secured.token_path}"
    jvm = (java(), *SHORT_LIVED, *urls, logging_option(), "-cp", class_path())
    command = [*jvm, str(PROGRAM), topic, str(LIFETIME_MS + 2000), *expected]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == expected, done.stderr


def _write(path: Path, settings: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
