import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from public_sc import PublicSc, public_sc, tailrace

from tailrace.controller.objects.objects import TopicSpec
from tailrace.controller.state.actions import Put
from tailrace.protocol.ids import SpuId

EVERYTHING = """\
kind: spu
spec: {spuId: 1, rack: zone-1, publicEndpoint: {port: 9005, ingress: [{hostname: one}]}}
---
kind: SpuGroup
name: main
spec: {replicas: 2, minId: 11}
---
kind: topic
name: orders
spec: {partitions: 2, configs: {retention.ms: 5}}
"""


async def _apply(sc: PublicSc, path: Path, text: str, *words: str) -> int:
    return await tailrace(sc.network, "apply", "-f", _written(path, text), *words)


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


async def test_what_describe_prints_can_be_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await _apply(sc, tmp_path / "cluster.yaml", EVERYTHING) == 4
        for kind, name in (("spu", "1"), ("spu-group", "main"), ("topic", "orders")):
            capsys.readouterr()
            assert await tailrace(sc.network, kind, "describe", name, "--output", "yaml") == 0
            status = await _apply(sc, tmp_path / f"{kind}.yaml", capsys.readouterr().out)
            assert status == (4 if kind == "topic" else 0), "no SPU is online"
            assert capsys.readouterr().out.startswith(f"{kind} {name} unchanged")


async def test_files_are_applied_again_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.yaml"
    async with public_sc() as sc:
        assert await _apply(sc, path, EVERYTHING) == 4
        assert capsys.readouterr().out == (
            "spu 1 created\n"
            "spu-group main created\n"
            "topic orders created; its status is InsufficientResources: "
            "a replication factor of 1 needs 1 SPU, and 0 are available\n"
        )
        await sc.running.connect(1)
        local = sc.running.workflow.local
        orders = local.topics["orders"].id
        await sc.running.workflow.writes.wait_until(lambda: len(local.partitions_of(orders)) == 2)
        assert await _apply(sc, path, EVERYTHING) == 0
        assert capsys.readouterr().out == "spu 1 unchanged\nspu-group main unchanged\ntopic orders unchanged\n"

        other = EVERYTHING.replace("zone-1", "zone-2").replace("replicas: 2", "replicas: 3, template: {rack: zone-3}")
        other = other.replace("partitions: 2", "partitions: 3").replace("retention.ms", "segment.ms")
        assert await _apply(sc, path, other) == 0
        assert capsys.readouterr().out == "spu 1 updated\nspu-group main updated\ntopic orders updated\n"
        await sc.running.workflow.writes.wait_until(lambda: len(local.spus) == 4)
        assert [local.spus[SpuId(spu)].spec.rack for spu in (1, 11, 12, 13)] == ["zone-2"] + ["zone-3"] * 3
        assert local.topics["orders"].spec == TopicSpec(3, 1, configs={"segment.ms": "5"})


async def test_what_was_listed_is_accepted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _apply(sc, tmp_path / "cluster.yaml", EVERYTHING)
        capsys.readouterr()
        await tailrace(sc.network, "spu", "list", "--output", "yaml")
        listed = capsys.readouterr().out
        assert await _apply(sc, tmp_path / "listed.yaml", listed) == 0
        assert capsys.readouterr().out == "spu 1 unchanged\nspu 11 unchanged\nspu 12 unchanged\n"


async def test_flags_say_what_a_bare_spec_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "group.yaml"
    async with public_sc() as sc:
        assert await _apply(sc, path, "replicas: 2\nminId: 11\n", "--kind", "spu-group", "--name", "main") == 0
        assert capsys.readouterr().out == "spu-group main created\n"
        assert await _apply(sc, path, "spuId: 1\n", "--kind", "spu", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert (document["kind"], document["name"]) == ("spu", "1")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("spuId: 1\n", "kind: it is missing; add it or give --kind (one of spu, spu-group, topic, trigger)"),
        ("kind: partition\n", "kind: 'partition' is not one of spu, spu-group, topic, trigger"),
        ("kind: topic\n", "name: it is missing"),
        ("kind: spu\nspuId: -1\n", "spuId: -1 is not an id from 0 to 2147483647"),
        ("- 1\n", "kind: it is missing; add it or give --kind (one of spu, spu-group, topic, trigger)"),
        ("", "the file has no document"),
    ],
)
async def test_nobody_is_asked_for_what_is_wrong(
    text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    async with public_sc() as sc:
        assert await _apply(sc, path, text) == 2
        assert capsys.readouterr().err == f"tailrace apply: {path}: {fault}\n"


async def test_what_was_done_before_a_refusal_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _apply(sc, tmp_path / "cluster.yaml", EVERYTHING)
        capsys.readouterr()
        text = "kind: spu\nspec: {spuId: 2}\n---\nkind: spu\nspec: {spuId: 11}\n---\nkind: spu\nspec: {spuId: 3}\n"
        assert await _apply(sc, tmp_path / "more.yaml", text) == 1
        said = capsys.readouterr()
        assert said.out == "spu 2 created\n"
        assert said.err == "tailrace apply: SPU 11 belongs to the SPU group main: change the group's template\n"


async def _with_spus(sc: PublicSc, *ids: int) -> None:
    for each in ids:
        words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
        assert await tailrace(sc.network, "spu", "register", *words) == 0
    await sc.running.connect(*ids)


TOPIC = "kind: topic\nname: orders\n"


async def test_a_topic_that_cannot_work_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topic.yaml"
    async with public_sc() as sc:
        await _with_spus(sc, 1, 2)
        capsys.readouterr()
        assert await _apply(sc, path, TOPIC + "replicaMap: {0: [1, 9]}\n") == 4
        said = capsys.readouterr()
        assert said.out == (
            "topic orders created; its status is InvalidConfig: replicaMap: partition 0 names the SPU 9, "
            "which does not exist\n"
        )
        assert said.err.startswith("tailrace apply: topic orders is stored, but no client can use it yet: replicaMap: ")
        assert await _apply(sc, path, TOPIC + "replicationFactor: 3\n") == 4
        assert "needs 3 SPUs, and 2 are available" in capsys.readouterr().err
        assert await _apply(sc, path, TOPIC + "replicaMap: {0: [2, 1], 1: [1, 2]}\n") == 0
        assert capsys.readouterr().out == "topic orders updated\n"
        topic = sc.running.workflow.local.topics["orders"]
        assert topic.status.replica_map == {0: (2, 1), 1: (1, 2)}


async def test_a_map_moves_replicas_and_no_map_leaves_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topic.yaml"
    by_hand, by_the_sc = TOPIC + "replicaMap: {0: [1, 2]}\n", TOPIC + "replicationFactor: 2\n"
    async with public_sc() as sc:
        await _with_spus(sc, 1, 2, 3)
        local = sc.running.workflow.local
        await _apply(sc, path, by_hand)
        # What the SC does when an SPU stays offline: it changes only the status.
        there = local.topics["orders"]
        strayed = replace(there, status=replace(there.status, replica_map={0: (1, 3)}))
        assert await sc.running.workflow.writes.write([Put(strayed)]) == [True]
        capsys.readouterr()

        assert await tailrace(sc.network, "topic", "describe", "orders") == 0
        assert "Replicas:\n  - 0: [1, 3] (wanted: [1, 2])" in capsys.readouterr().out
        for outcome in ("updated", "unchanged"):
            assert await _apply(sc, path, by_hand) == 0
            assert capsys.readouterr().out == f"topic orders {outcome}\n"
            assert local.topics["orders"].status.replica_map == {0: (1, 2)}
        for outcome in ("updated", "unchanged"):
            assert await _apply(sc, path, by_the_sc) == 0
            assert capsys.readouterr().out == f"topic orders {outcome}\n"
            assert local.topics["orders"].status.replica_map == {0: (1, 2)}
            assert local.topics["orders"].spec.replica_map == {}


async def test_a_topic_gets_other_replicas_partitions_and_configs_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "topic.yaml"
    async with public_sc() as sc:
        await _with_spus(sc, 1, 2)
        await _apply(sc, path, TOPIC)
        capsys.readouterr()
        assert await _apply(sc, path, TOPIC + "partitions: 2\nreplicationFactor: 2\nconfigs: {retention.ms: 6}\n") == 0
        topic = sc.running.workflow.local.topics["orders"]
        assert [sorted(row) for row in topic.status.replica_map.values()] == [[1, 2], [1, 2]]
        assert topic.spec == TopicSpec(2, 2, configs={"retention.ms": "6"})
        assert await _apply(sc, path, TOPIC) == 1
        assert capsys.readouterr().err == (
            "tailrace apply: orders has 2 partitions, and 1 is less; partitions cannot be removed\n"
        )
