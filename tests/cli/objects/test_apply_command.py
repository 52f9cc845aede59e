import json
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace
from public_sc import PublicSc, public_sc, tailrace

from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.objects.apply_command import TopicChanges, topic_changes
from tailrace.controller.objects.objects import Topic, TopicResolution, TopicSpec, TopicStatus
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
ROW = tuple(map(SpuId, (1, 2)))
OTHER_ROW = tuple(map(SpuId, (2, 1)))
SPEC = TopicSpec(2, 2, configs={"retention.ms": "5", "cleanup.policy": "compact"})
TOPIC = Topic("orders", UUID(int=7), SPEC, TopicStatus(TopicResolution.PROVISIONED, {0: ROW, 1: ROW}))


async def _apply(sc: PublicSc, path: Path, text: str, *words: str) -> int:
    return await tailrace(sc.network, "apply", "-f", _written(path, text), *words)


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


async def test_what_describe_prints_can_be_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await _apply(sc, tmp_path / "cluster.yaml", EVERYTHING) == 0
        for kind, name in (("spu", "1"), ("spu-group", "main"), ("topic", "orders")):
            capsys.readouterr()
            assert await tailrace(sc.network, kind, "describe", name, "--output", "yaml") == 0
            assert await _apply(sc, tmp_path / f"{kind}.yaml", capsys.readouterr().out) == 0
            assert capsys.readouterr().out.startswith(f"{kind} {name} unchanged")


async def test_files_are_applied_again_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cluster.yaml"
    async with public_sc() as sc:
        assert await _apply(sc, path, EVERYTHING) == 0
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
        ("spuId: 1\n", "kind: it is missing; add it or give --kind (one of spu, spu-group, topic)"),
        ("kind: partition\n", "kind: 'partition' is not one of spu, spu-group, topic"),
        ("kind: topic\n", "name: it is missing"),
        ("kind: spu\nspuId: -1\n", "spuId: -1 is not an id from 0 to 2147483647"),
        ("- 1\n", "kind: it is missing; add it or give --kind (one of spu, spu-group, topic)"),
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


def _wanted(**spec: object) -> Topic:
    return replace(TOPIC, spec=replace(SPEC, **spec), status=TopicStatus())  # type: ignore[arg-type]


def test_a_topic_is_changed_where_it_differs() -> None:
    assert topic_changes(TOPIC, _wanted()) == TopicChanges({}, None, None)
    wanted = _wanted(partitions=3, replica_map={1: ROW, 2: OTHER_ROW}, configs={"retention.ms": "6"})
    assert topic_changes(TOPIC, wanted) == TopicChanges({"retention.ms": "6", "cleanup.policy": None}, 3, [OTHER_ROW])
    assert topic_changes(TOPIC, _wanted(partitions=3)) == TopicChanges({}, 3, None)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"replication_factor": 1}, "replicationFactor: it is 2 and cannot be changed"),
        ({"ignores_racks": True}, "ignoreRackAssignment: it is false and cannot be changed"),
        ({"partitions": 1}, "partitions: the topic has 2, and none can be removed"),
        ({"replica_map": {1: OTHER_ROW}}, "replicaMap.1: the replicas are [1, 2] and cannot be moved"),
        ({"partitions": 4, "replica_map": {3: ROW}}, "replicaMap: give rows for all added partitions, or for none"),
    ],
)
def test_what_cannot_be_changed_is_refused(spec: dict[str, object], why: str) -> None:
    with pytest.raises(RefusedError) as refused:
        topic_changes(TOPIC, _wanted(**spec))
    assert str(refused.value).startswith(f"topic orders: {why}")
