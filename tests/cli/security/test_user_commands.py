"""Tests `tailrace user …` on a whole SPU."""

import json
from typing import Any

import pytest
from administered import through_brokers
from clusters import ClusterOfSpus, cluster_of
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.user_client import UserClient
from tailrace.security.sasl.scram_keys import fits

Capture = pytest.CaptureFixture[str]


async def user(cluster: ClusterOfSpus, *words: str) -> int:
    return await through_brokers(cluster, "user", *words)


async def test_users_are_created_listed_changed_and_deleted(
    autojump_clock: MockClock, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", "first-secret")
    monkeypatch.setenv("SECOND", "second-secret")
    with capture_logs() as logs:
        async with cluster_of(1) as cluster:
            users = cluster.spus[1].spu.cluster.security.users
            assert await user(cluster, "create", "alice", "--password-env", "FIRST") == 0
            assert await user(cluster, "create", "bob", "--mechanism", "SCRAM-SHA-512", "--generate") == 0
            assert len(capsys.readouterr().out.strip()) == 24
            assert await user(cluster, "list") == 0
            assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
                ["USER", "MECHANISMS", "ITERATIONS"],
                ["alice", "SCRAM-SHA-256,", "SCRAM-SHA-512", "4096,", "4096"],
                ["bob", "SCRAM-SHA-512", "4096"],
            ]
            assert all(fits(each, "first-secret") for each in users["alice"].credentials)
            assert await user(cluster, "password", "alice", "--password-env", "SECOND", "--iterations", "8192") == 0
            assert [fits(each, "second-secret") for each in users["alice"].credentials] == [True, True]
            assert await user(cluster, "delete", "alice", "--mechanism", "SCRAM-SHA-256") == 0
            assert await user(cluster, "list", "--output", "json") == 0
            assert json.loads(capsys.readouterr().out)[0] == {
                "name": "alice",
                "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}],
            }
            assert await user(cluster, "delete", "alice", "bob") == 0
            assert not users
    assert "secret" not in str(logs) + "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("create", "alice", "--generate"), 1, "the user alice exists"),
        (("create", "\u2168", "--generate"), 2, "the name of the user"),
        (("create", "bob"), 2, "no terminal can be asked"),
        (("password", "bob", "--generate"), 1, "there is no user bob"),
        (("delete", "alice", "bob"), 1, "there is no user bob"),
    ],
)
async def test_what_cannot_be_done_is_refused_in_a_sentence(
    autojump_clock: MockClock, capsys: Capture, words: tuple[str, ...], status: int, sentence: str
) -> None:
    with capture_logs():
        async with cluster_of(1) as cluster:
            assert await user(cluster, "create", "alice", "--generate") == 0
            capsys.readouterr()
            assert await user(cluster, *words) == status
            captured = capsys.readouterr()
            assert sentence in captured.err and captured.out == ""
            assert set(cluster.spus[1].spu.cluster.security.users) == {"alice"}


@pytest.mark.parametrize(
    ("words", "deletes", "left", "sentence"),
    [
        (("create", "bob", "--generate"), True, {}, "no room"),
        (("create", "bob", "--generate"), False, {"SCRAM-SHA-256": 4096}, "only SCRAM-SHA-256 has the new password"),
        (("password", "alice", "--generate", "--iterations", "5000"), True, None, "run the command again"),
    ],
)
async def test_a_user_is_not_left_with_half_of_the_credentials_unnoticed(
    autojump_clock: MockClock,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    deletes: bool,
    left: dict[str, int] | None,
    sentence: str,
) -> None:
    """Each mechanism takes a request, and the second one fails here."""
    put = UserClient.put

    async def put_once(client: UserClient, name: str, mechanism: str, *more: Any) -> None:
        if mechanism == "SCRAM-SHA-512":
            raise RefusedError("no room", 1)
        await put(client, name, mechanism, *more)

    async def refuse(client: UserClient, name: str, mechanism: str) -> None:
        raise UnreachableError("nothing responds")

    with capture_logs():
        async with cluster_of(1) as cluster:
            assert await user(cluster, "create", "alice", "--generate") == 0
            capsys.readouterr()
            monkeypatch.setattr(UserClient, "put", put_once)
            if not deletes:
                monkeypatch.setattr(UserClient, "delete", refuse)
            assert await user(cluster, *words) == 1
            captured = capsys.readouterr()
            assert sentence in captured.err and captured.out == ""
            assert await user(cluster, "list", "--output", "json") == 0
            users = {
                each["name"]: {found["mechanism"]: found["iterations"] for found in each["credentials"]}
                for each in json.loads(capsys.readouterr().out)
            }
            if left is None:
                assert users["alice"] == {"SCRAM-SHA-256": 5000, "SCRAM-SHA-512": 4096}
            else:
                assert users.get("bob", {}) == left
