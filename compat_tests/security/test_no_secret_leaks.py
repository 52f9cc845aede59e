"""Nothing that a cluster writes contains a secret.

One cluster has users, access rules, delegation tokens, an encrypted key and failed logins. Afterwards every file, log,
metric and output is searched for all passwords and keys, in several encodings.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.java import run_tool
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from security.secret_run import (
    KEY_PASSWORD,
    NEW_PASSWORD,
    PASSWORD,
    TOKEN_KEY,
    WRONG_PASSWORD,
    SecretRun,
    forms_of,
    token_in,
)

pytestmark = pytest.mark.timeout(240)
"""Three short processes of Java are slow if the machine is busy."""


@pytest.fixture(scope="module")
def secret_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretRun]:
    if request.config.getoption("--bootstrap") or request.config.getoption("--broker") == "apache-kafka":
        pytest.skip("the test searches what Tailrace writes")
    run = SecretRun(tmp_path_factory.mktemp("secrets"))
    run.start()
    try:
        run.run("user", "create", "alice", "--password-stdin", given=PASSWORD)
        run.run("acl", "create", "alice", "all", "--topic", "orders", "--group", "g")
        run.run("topic", "create", "orders")
        yield run
    finally:
        run.stop()


def _client(run: SecretRun, password: str, mechanism: str = "SCRAM-SHA-256", **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": run.secure_address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(run.directory / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def _tokens(run: SecretRun, config: Path, *words: str) -> str:
    return run_tool(
        "delegation-tokens", "--bootstrap-server", run.secure_address, "--command-config", str(config), *words
    )


@pytest.fixture(scope="module")
def alice(secret_run: SecretRun) -> Path:
    """Returns the settings with which Java's clients log in as alice."""
    return secret_run.properties("java", "alice", PASSWORD)


@pytest.fixture(scope="module")
def token(secret_run: SecretRun, alice: Path) -> tuple[str, str]:
    """Returns the id and the HMAC of a token that alice has created."""
    words = ("--create", "--renewer-principal", "User:bob", "--max-life-time-period", "-1")
    return token_in(_tokens(secret_run, alice, *words))


def test_a_certificate_that_expires_soon_is_said_everywhere(secret_run: SecretRun) -> None:
    # No SC is there, so that brokers are asked.
    said = secret_run.run("doctor", "--sc", "127.0.0.1:1", fails=True)
    assert "The authority localhost of SPU 1 expires in 0 days (listeners: PUBLIC_1)." in said
    secret_run.scrape()
    assert b'tailrace_certificate_expiry_timestamp_seconds{listener="PUBLIC_1"} 1.' in secret_run.written["metrics"]
    assert "certificate_expires" in secret_run.errors()


def test_no_secret_is_written_anywhere(secret_run: SecretRun, alice: Path, token: tuple[str, str]) -> None:
    run = secret_run
    worker = run.properties("token", *token, mechanism="SCRAM-SHA-512")
    run.run("topic", "list", config=worker)
    _tokens(run, alice, "--expire", "--expiry-time-period", "-1", "--hmac", token[1])
    run.run("topic", "list", config=worker, fails=True)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        producer = Producer(_client(run, PASSWORD, mechanism))
        producer.produce("orders", b"value")
        assert producer.flush(20) == 0
    consumer = Consumer(_client(run, PASSWORD, group_id="g", auto_offset_reset="earliest"))
    consumer.subscribe(["orders"])
    assert consumer.poll(20) is not None
    consumer.close()
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        with pytest.raises(KafkaException):
            AdminClient(_client(run, WRONG_PASSWORD, mechanism, log_level="0")).list_topics(timeout=3)
    wrong = run.properties("wrong", "alice", WRONG_PASSWORD, mechanism="PLAIN")
    run.run("topic", "list", config=wrong, fails=True)
    right = run.properties("right", "alice", PASSWORD, mechanism="PLAIN")
    run.run("topic", "describe", "orders", config=right)
    run.run("topic", "delete", "payments", config=right, fails=True)
    run.run("user", "password", "alice", "--password-stdin", given=NEW_PASSWORD)
    run.run("user", "list", "-o", "json")
    run.run("acl", "list", "-o", "json")
    assert "delegation.token.secret.key" in run.run("config", "describe", "broker", "1", "--all", "-o", "json")
    run.run("config", "check", str(run.directory / "tailrace.toml"), "--all")
    run.scrape()
    assert run.stop() == 0
    run.run("audit", "verify", str(run.directory / "data"))
    shown = run.run("audit", "show", str(run.directory / "data"))
    for happened in ("failed", "denied", "CreateDelegationToken", "AlterUserScramCredentials", "WRITE  TOPIC:orders"):
        assert happened in shown, "the run did what is searched here"
    places = dict(run.places())
    assert any(name.endswith(".log") and "audit" in name for name in places)
    assert any(b"alice" in content for name, content in places.items() if name.endswith(".errors"))
    secrets = [PASSWORD, NEW_PASSWORD, WRONG_PASSWORD, TOKEN_KEY, KEY_PASSWORD, token[1]]
    forms = {form: secret for secret in secrets for form in forms_of(secret.encode())}
    forms |= dict.fromkeys(forms_of(run.key), "the key of the server")
    assert any(form in (run.directory / "right.properties").read_bytes() for form in forms), "the search finds them"
    leaks = [(name, forms[form]) for name, content in places.items() for form in forms if form in content]
    assert leaks == []
