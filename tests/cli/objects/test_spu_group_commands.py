import json
from pathlib import Path

import pytest
from public_sc import public_sc, tailrace


async def test_a_group_from_creation_to_deletion(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        words = ("--replicas", "2", "--min-id", "11", "--size", "2Gi", "--rack", "r1")
        assert await tailrace(sc.network, "spu-group", "create", "main", *words) == 0
        assert capsys.readouterr().out == "created SPU group main; its status is Reserved\n"
        assert await tailrace(sc.network, "spu-group", "list") == 0
        assert capsys.readouterr().out == (
            "NAME  REPLICAS  IDS    SIZE  RACK  STATUS    REASON\nmain         2  11-12  2Gi   r1    Reserved       -\n"
        )
        assert await tailrace(sc.network, "spu", "list") == 0
        assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()[1:]] == [
            ["11", "Managed", "main"],
            ["12", "Managed", "main"],
        ]
        assert await tailrace(sc.network, "spu-group", "scale", "main", "3") == 0
        assert capsys.readouterr().out == "scaled SPU group main to 3 SPUs\n"
        assert await tailrace(sc.network, "spu-group", "scale", "main", "--replicas", "1") == 0
        assert capsys.readouterr().out == "scaled SPU group main to 1 SPU\n"
        assert await tailrace(sc.network, "spu-group", "scale", "main", "3") == 0
        capsys.readouterr()
        assert await tailrace(sc.network, "spu-group", "describe", "main") == 0
        shown = capsys.readouterr().out
        assert "Ids:          11-13\n" in shown
        assert "Storage:      2Gi\n" in shown
        assert await tailrace(sc.network, "spu-group", "delete", "main") == 0
        assert capsys.readouterr().out == "deleted SPU group main; its SPUs stop\n"
        assert await tailrace(sc.network, "spu-group", "list", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == []


async def test_ids_that_are_taken_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await tailrace(sc.network, "spu", "register", "--id", "12", "--public", "a:1", "--private", "a:2")
        capsys.readouterr()
        assert await tailrace(sc.network, "spu-group", "create", "main", "--replicas", "2", "--min-id", "11") == 0
        assert capsys.readouterr().out.startswith("created SPU group main; its status is Invalid: ")
        words = ("spu-group", "create", "other", "--replicas", "2", "--min-id", "12", "--wait", "5")
        assert await tailrace(sc.network, *words) == 1
        said = capsys.readouterr()
        assert said.out.startswith("created SPU group other; its status is Invalid: ")
        assert said.err.startswith("tailrace spu-group create: SPU group other is Invalid, so its SPUs never start: ")


async def test_the_seeds_group_is_created_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "group.yaml"
    path.write_text("""
replicas: 2
minId: 11
template:
  storage: {size: 2Gi, logDir: "/var/lib/mylog"}
  publicEndpoint: {port: 9005, ingress: [{hostname: localhost}], encryption: PLAINTEXT}
  privateEndpoint: {port: 9006, host: localhost, encryption: PLAINTEXT}
""")
    async with public_sc() as sc:
        assert await tailrace(sc.network, "spu-group", "create", "main", "--file", str(path), "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert document["spec"]["template"]["storage"] == {"size": "2Gi", "logDir": "/var/lib/mylog"}
        assert await tailrace(sc.network, "spu-group", "create", "--file", str(path)) == 2
        assert capsys.readouterr().err == f"tailrace spu-group create: {path}: name: it is missing\n"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("create",), "give the name of the group, or --file"),
        (("create", "main", "--replicas", "-1"), "replicas: -1 is not a whole number from 1 to 1000"),
        (("create", "main", "--replicas", "0"), "replicas: 0 is not a whole number from 1 to 1000"),
        (("scale", "main"), "give the number of SPUs once: REPLICAS or --replicas N"),
        (("scale", "main", "3", "--replicas", "3"), "give the number of SPUs once"),
        (("create", "main", "--size", "big"), "template.storage.size: 'big' is not a size"),
        (("create", "main", "--file", "x", "--replicas", "2"), "--file: write replicas"),
        (("create", "a b"), "name: 'a b' cannot name an SPU group"),
    ],
)
async def test_wrong_usage(words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, "spu-group", *words) == 2
        assert capsys.readouterr().err.startswith(f"tailrace spu-group {words[0]}: {fault}")


async def test_a_group_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        for words in (("scale", "main", "3"), ("delete", "main"), ("describe", "main")):
            assert await tailrace(sc.network, "spu-group", *words) == 1
            assert capsys.readouterr().err == f"tailrace spu-group {words[0]}: there is no SPU group main\n"
        await tailrace(sc.network, "spu-group", "create", "main")
        assert await tailrace(sc.network, "spu-group", "scale", "main", "1001") == 2
