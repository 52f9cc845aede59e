"""The commands of `tailrace` log in with a file of settings, as Kafka's own tools do."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from cluster import tailrace
from secured_broker import CERTIFICATE, MECHANISMS, USER, SecuredBroker
from topics import topic_creator


def write(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def run(*words: str, standard_input: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tailrace(*words),
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=30,
        env=os.environ | environment,
    )


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SASL_PLAINTEXT", "SCRAM-SHA-256"), *(("SASL_SSL", each) for each in MECHANISMS), ("SSL", CERTIFICATE)],
)
def test_commands_prove_who_they_are(secured: SecuredBroker, tmp_path: Path, protocol: str, mechanism: str) -> None:
    topic = topic_creator(secured.open_address, "commands")()
    config = write(tmp_path / "client.properties", secured.properties(protocol, mechanism))
    address = secured.address(protocol)
    produced = run("produce", topic, "--bootstrap", address, "--client-config", str(config), standard_input="one\n")
    assert produced.returncode == 0, produced.stderr
    words = ("consume", topic, "--bootstrap", address, "--from", "beginning", "--values")
    consumed = run(*words, TAILRACE_CLIENT_CONFIG=str(config))
    assert (consumed.returncode, consumed.stdout) == (0, "one\n"), consumed.stderr


def test_a_wrong_password_is_one_sentence_and_status_1(secured: SecuredBroker, tmp_path: Path) -> None:
    settings = secured.properties("SASL_SSL", "SCRAM-SHA-512", password="wrong-secret")
    config = write(tmp_path / "client.properties", settings)
    done = run("topic", "list", "--bootstrap", secured.tls_address, "--client-config", str(config))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"tailrace topic list: the server at {secured.tls_address} refuses the login of {USER}"
    )
    assert "wrong-secret" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_command_without_the_file_says_what_may_be_wrong(secured: SecuredBroker) -> None:
    done = run("topic", "list", "--bootstrap", secured.sasl_address)
    assert done.returncode in (1, 3) and len(done.stderr.splitlines()) == 1
    assert "client-config" in done.stderr


def test_users_are_managed_over_a_secured_connection(secured: SecuredBroker, tmp_path: Path) -> None:
    config = write(tmp_path / "client.properties", secured.properties("SASL_SSL", "SCRAM-SHA-256"))
    where = ("--bootstrap", secured.tls_address, "--client-config", str(config))
    created = run("user", "create", "bob", "--generate", *where)
    assert created.returncode == 0, created.stderr
    changed = run("user", "password", "bob", "--generate", *where)
    assert changed.stdout != created.stdout
    settings = secured.properties("SASL_PLAINTEXT", "SCRAM-SHA-512", "bob", changed.stdout.strip())
    bob = write(tmp_path / "bob.properties", settings)
    listed = run("user", "list", "-o", "json", "--bootstrap", secured.sasl_address, "--client-config", str(bob))
    assert [each["name"] for each in json.loads(listed.stdout)] == [USER, "bob"]
    assert run("user", "delete", "bob", *where).returncode == 0
    refused = run("user", "list", "--bootstrap", secured.sasl_address, "--client-config", str(bob))
    assert refused.returncode == 1
