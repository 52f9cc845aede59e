"""`tailrace quota` through an SPU in memory; compat_tests run it against Apache Kafka as well."""

import json

import pytest
import trio
from administered import administered, through_brokers

Capture = pytest.CaptureFixture[str]


async def test_quotas_are_set_listed_and_deleted(autojump_clock: trio.testing.MockClock, capsys: Capture) -> None:
    async with administered(1) as (cluster, admin):

        async def run(*words: str) -> str:
            assert await through_brokers(cluster, "quota", *words) == 0
            return capsys.readouterr().out

        table = (
            "USER   CLIENT ID  ADDRESS  QUOTA               LIMIT\n"
            "alice          -        -  producer_byte_rate   1000\n"
        )
        dry = await run("set", "--user", "alice", "producer-byte-rate=1000", "--dry-run")
        assert dry == f"{table}Nothing was set: leave out --dry-run to do it.\n"
        assert await run("list", "--output", "json") == "[]\n"
        assert await run("set", "--user", "alice", "producer_byte_rate=1000") == table
        await run("set", "--default-user", "--default-client-id", "request_percentage=12.5")
        await run("set", "--ip", "10.0.0.1", "connection_creation_rate=20")
        listed = json.loads(await run("list", "--output", "json"))
        assert {
            "entity": [{"type": "user", "name": "alice", "isDefault": False}],
            "limits": {"producer_byte_rate": 1000},
        } in listed
        assert len(listed) == 3
        assert (await run("list", "--default-user")).splitlines()[1:] == [
            "(default)  (default)        -  request_percentage  12.5"
        ]
        deleted = await run("delete", "--user", "alice")
        assert deleted == "Deleted the quota producer_byte_rate of user alice.\n"
        assert len(await admin.quotas()) == 2


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("set", "producer_byte_rate=1"), 2, "say whose quota is meant"),
        (("set", "--user", "a", "producer_rate=1"), 2, "did you mean producer_byte_rate?"),
        (("set", "--user", "a", "producer_byte_rate=fast"), 2, "expected a number"),
        (("set", "--user", "a", "producer_byte_rate=0"), 2, "greater than 0"),
        (("set", "--user", "a", "--ip", "1.2.3.4", "request_percentage=1"), 2, "cannot be combined"),
        (("set", "--ip", "localhost", "connection_creation_rate=1"), 2, "not an IP address"),
        (("delete", "--user", "nobody"), 1, "user nobody has no quota"),
        (("delete", "--user", "nobody", "request_percentage"), 1, "user nobody has no quota request_percentage"),
    ],
)
async def test_wrong_quotas_are_explained(
    autojump_clock: trio.testing.MockClock, capsys: Capture, words: tuple[str, ...], status: int, reason: str
) -> None:
    async with administered(1) as (cluster, _):
        assert await through_brokers(cluster, "quota", *words) == status
        assert reason in capsys.readouterr().err
