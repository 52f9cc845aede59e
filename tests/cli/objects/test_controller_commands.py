import json

import pytest
from public_sc import public_sc, tailrace


async def test_the_controllers_are_there_from_the_start_one_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, "controller", "list") == 0
        heading, *rows = capsys.readouterr().out.splitlines()
        assert heading.split() == ["CONTROLLER", "OBJECTS", "EVENTS", "ACTIONS"]
        assert [row.split()[:2] for row in rows] == [
            ["spu", "0"],
            ["spu-group", "0"],
            ["topic", "0"],
            ["partition", "0"],
            ["stream-state", "0"],
            ["trigger", "0"],
        ]
        await sc.running.objects.create("spu", json.dumps({"spuId": 1}), 0)
        assert await tailrace(sc.network, "controller", "list", "--output", "json") == 0
        documents = json.loads(capsys.readouterr().out)
        assert [document["name"] for document in documents] == [
            "spu",
            "spu-group",
            "topic",
            "partition",
            "stream-state",
            "trigger",
        ]
        assert documents[0]["status"]["objects"] == 1
        assert documents[0]["status"]["events"] > 0
