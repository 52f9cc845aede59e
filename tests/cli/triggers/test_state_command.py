import json

import pytest
from public_sc import PublicSc, public_sc, tailrace

MEMBERS = [
    {"member_id": "replica1", "shards": "0-3", "last_heartbeat": "2026-01-31T12:00:00.000Z"},
    {"member_id": "replica2", "shards": "4-7", "last_heartbeat": "2026-01-31T12:00:01.000Z"},
    {"member_id": "replica3", "shards": "8-11", "last_heartbeat": "2026-01-31T12:00:02.000Z"},
]


async def _plant(sc: PublicSc, group: str, *members: dict[str, str]) -> None:
    text = json.dumps({"members": members, "epoch": len(members)})
    await sc.running.host.trigger_requests().write_stream("my-stream", group, 0, text)


async def test_the_state_is_the_seeds_json(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("my-stream", 12)
        await _plant(sc, "my-consumer-group", *MEMBERS)
        assert await tailrace(sc.network, "trigger", "state", "my-stream") == 0
        shown = capsys.readouterr().out
        assert shown == json.dumps(MEMBERS, indent=2) + "\n"
        assert await tailrace(sc.network, "trigger", "state", "my-stream", "--output", "json") == 0
        assert capsys.readouterr().out == shown


async def test_of_several_groups_each_has_its_members(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await sc.running.create_topic("my-stream", 12)
        await _plant(sc, "one", MEMBERS[0])
        await _plant(sc, "two", *MEMBERS[1:])
        assert await tailrace(sc.network, "trigger", "state", "my-stream") == 0
        assert json.loads(capsys.readouterr().out) == {"one": MEMBERS[:1], "two": MEMBERS[1:]}
        assert await tailrace(sc.network, "trigger", "state", "my-stream", "--group", "two") == 0
        assert json.loads(capsys.readouterr().out) == MEMBERS[1:]


async def test_a_stream_that_no_trigger_reads_has_no_groups(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, "trigger", "state", "my-stream") == 1
        assert capsys.readouterr().err == "tailrace trigger state: there is no topic my-stream\n"
        await sc.running.create_topic("my-stream", 12)
        assert await tailrace(sc.network, "trigger", "state", "my-stream") == 0
        assert json.loads(capsys.readouterr().out) == {}
        assert await tailrace(sc.network, "trigger", "state", "my-stream", "--group", "one") == 1
        assert "no trigger reads my-stream in the group one" in capsys.readouterr().err
