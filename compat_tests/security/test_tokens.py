"""Delegation tokens with Kafka's own tool: created, used, listed and expired; `tailrace` does so too."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from clients.java import ToolFailed, run_tool
from cluster import tailrace
from security.guarded import GuardedBroker
from security.secret_run import token_in
from topics import topic_creator

pytestmark = pytest.mark.timeout(240)
"""Five short processes of Java are slow if the machine is busy."""


def test_a_token_is_created_used_and_expired_with_kafkas_tool(guarded: GuardedBroker, tmp_path: Path) -> None:
    alice, worker = tmp_path / "alice", tmp_path / "worker"
    alice.write_text(guarded.properties())
    topic = topic_creator(guarded.open_address, "tokens")()
    guarded.run("acl", "create", "alice", "describe", "--topic", topic)

    def tokens(config: Path, *words: str) -> str:
        where = ("--bootstrap-server", guarded.login_address, "--command-config", str(config))
        return run_tool("delegation-tokens", *where, *words)

    def run(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = tailrace(*words, "--bootstrap", guarded.login_address)
        environment = os.environ | {"TAILRACE_CLIENT_CONFIG": str(config)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)

    created = tokens(alice, "--create", "--renewer-principal", "User:bob", "--max-life-time-period", "-1")
    token_id, hmac = token_in(created)
    worker.write_text(guarded.properties(token_id, hmac, is_token=True))
    assert topic in run(worker, "topic", "list").stdout, "the token acts as its owner"
    with pytest.raises(ToolFailed, match="not allowed on PLAINTEXT/1-way SSL channels and on delegation token"):
        tokens(worker, "--describe", "--owner-principal", "User:alice")
    assert token_in(tokens(alice, "--describe", "--owner-principal", "User:alice")) == (token_id, hmac)
    listed = run(alice, "token", "list", "-o", "json")
    assert [each["token"] for each in json.loads(listed.stdout)] == [token_id], listed.stderr
    renewed = run(alice, "token", "renew", token_id, "--for", "2h")
    assert renewed.returncode == 0, renewed.stderr
    tokens(alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    refused = run(worker, "topic", "list")
    assert refused.returncode == 1 and "refuses the login" in refused.stderr
    assert hmac not in refused.stderr
