"""Topics through a broker: here the SC's public port, which speaks Kafka's protocol like any broker."""

import json
from pathlib import Path

import pytest
from public_sc import ADDRESS, PublicSc, public_sc, tailrace

Capture = pytest.CaptureFixture[str]


async def topic(sc: PublicSc, *words: str) -> int:
    return await tailrace(sc.network, "topic", *words, "--bootstrap", str(ADDRESS))


async def with_spu(sc: PublicSc) -> None:
    words = ("--id", "1", "--public", "one:9005", "--private", "one:9006")
    assert await tailrace(sc.network, "spu", "register", *words) == 0
    await sc.running.connect(1)


async def test_topics_are_created_from_options_and_files(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "topic.yaml"
    path.write_text("{kind: topic, name: filed, spec: {replicaMap: {0: [1], 1: [1]}, configs: {retention.ms: 5000}}}")
    async with public_sc() as sc:
        await with_spu(sc)
        capsys.readouterr()
        assert await topic(sc, "create", "given", "--partitions", "3", "--replication-factor", "1") == 0
        assert await topic(sc, "create", "--file", str(path)) == 0
        assert capsys.readouterr().out == "created topic given\ncreated topic filed\n"
        assert await topic(sc, "list", "--output", "json") == 0
        listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
        assert {name: len(each["partitions"]) for name, each in listed.items()} == {"given": 3, "filed": 2}
        assert await topic(sc, "describe", "filed") == 0
        assert "Config retention.ms: 5000" in capsys.readouterr().out
        assert await topic(sc, "delete", "given") == 0


async def test_what_a_broker_cannot_do_is_wrong_usage(capsys: Capture) -> None:
    async with public_sc() as sc:
        await with_spu(sc)
        capsys.readouterr()
        assert await topic(sc, "list", "--deleted") == 2
        assert "--deleted is only for the SC: name it with --sc instead of --bootstrap" in capsys.readouterr().err
        assert await topic(sc, "create") == 2
        assert await topic(sc, "describe", "missing") == 1
        assert capsys.readouterr().err.endswith("tailrace topic describe: there is no topic 'missing'\n")
