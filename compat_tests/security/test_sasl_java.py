"""Java's clients prove who they are in every way, and log in again while they send."""

import subprocess
from pathlib import Path

import clients
from java_stores import java_stores
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java
from secured_broker import CERTIFICATE, LIFETIME_MS, WAYS, SecuredBroker
from security_page import example
from topics import topic_creator

PROGRAM = Path(clients.__path__[0], "Logins.java")
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
SECONDS_MAX = 90


def test_java_proves_who_it_is_in_every_way(secured: SecuredBroker, tmp_path: Path) -> None:
    topic = topic_creator(secured.open_address, "java-logins")()
    stranger = secured.properties("SSL", CERTIFICATE)
    del stranger["ssl.keystore.location"], stranger["ssl.keystore.type"]
    wrong = [secured.properties("SASL_SSL", mechanism, password="wrong") for mechanism in ("PLAIN", "SCRAM-SHA-512")]
    cases = {
        "served": [*(secured.properties(*way) for way in WAYS), java_stores(secured, tmp_path)],
        "refused": [*wrong, stranger],
    }
    expected = {}
    for outcome, clients_of_java in cases.items():
        for number, settings in enumerate(clients_of_java):
            path = tmp_path / f"{outcome}-{number}"
            address = secured.address(settings["security.protocol"])
            _write(path, settings | {"bootstrap.servers": address})
            expected[str(path)] = outcome
    of_the_page = tmp_path / "page"
    of_the_page.write_text(example("Java", secured, topic))
    expected[str(of_the_page)] = "served"
    urls = f"{ALLOWED}.urls={secured.token_path.as_uri()}", f"{ALLOWED}.files={secured.token_path}"
    jvm = (java(), *SHORT_LIVED, *urls, logging_option(), "-cp", class_path())
    command = [*jvm, str(PROGRAM), topic, str(LIFETIME_MS + 2000), *expected]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == expected, done.stderr


def _write(path: Path, settings: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
