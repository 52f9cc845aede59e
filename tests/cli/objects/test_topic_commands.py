import json
from pathlib import Path

import pytest
from public_sc import ADDRESS, PublicSc, public_sc, tailrace

from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic

BOOTSTRAP = ("--bootstrap", str(ADDRESS))
SEED_MAP = "- 0: [0, 1, 2]\n- 1: [1, 2, 0]\n- 2: [2, 1, 0]\n- 3: [0, 1, 2]\n- 4: [1, 2, 0]\n- 5: [2, 1, 0]\n"


async def _with_spus(sc: PublicSc, *ids: int) -> None:
    for each in ids:
        words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
        assert await tailrace(sc.network, "spu", "register", *words) == 0
    await sc.running.connect(*ids)


async def test_the_seeds_topic_waits_for_spus_and_gets_them(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 0, 1)
        capsys.readouterr()
        words = ("create", "orders", "--partitions", "6", "--replication-factor", "3")
        assert await tailrace(sc.network, "topic", *words) == 4
        said = capsys.readouterr()
        assert said.out == "created topic orders; its status is InsufficientResources\n"
        assert said.err == (
            "tailrace topic create: topic orders is stored, but no client can use it yet: a replication factor of 3 "
            "needs 3 SPUs, and 2 are available. It gets its replicas as soon as enough SPUs run, for example after "
            "`tailrace up --spus 3`; or run `tailrace topic alter orders --replication-factor N`\n"
        )
        assert await tailrace(sc.network, "topic", *words, "--wait", "0.01") == 1
        assert capsys.readouterr().err == (
            "tailrace topic create: there is a topic orders already, but no client can use it yet: a replication "
            "factor of 3 needs 3 SPUs, and 2 are available\n"
        )
        await _with_spus(sc, 2)
        await sc.running.workflow.writes.wait_until(lambda: len(sc.running.workflow.local.partitions) == 6)
        capsys.readouterr()
        assert await tailrace(sc.network, "topic", "list") == 0
        assert capsys.readouterr().out == (
            "NAME    PARTITIONS  REPLICATION  STATUS       REASON\n"
            "orders           6            3  Provisioned       -\n"
        )
        assert await tailrace(sc.network, "topic", "describe", "orders", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        rows = document["status"]["replicaMap"]
        assert sorted(row[0] for row in rows.values()) == [0, 0, 1, 1, 2, 2]
        assert all(sorted(row) == [0, 1, 2] for row in rows.values())


async def test_the_seeds_map_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "map.yaml"
    path.write_text(SEED_MAP)
    async with public_sc() as sc:
        await _with_spus(sc, 0, 1, 2)
        capsys.readouterr()
        assert await tailrace(sc.network, "topic", "create", "orders", "--replica-assignment", str(path)) == 0
        assert capsys.readouterr().out == "created topic orders\n"
        assert await tailrace(sc.network, "topic", "describe", "orders") == 0
        shown = capsys.readouterr().out
        about, _, rows = shown.partition("Replicas:\n")
        assert "Partitions:         6\nReplication factor: 3\nStatus:             Provisioned\n" in about
        assert rows.replace("  -", "-") == SEED_MAP


async def test_rows_by_hand_that_name_an_unknown_spu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "map.json"
    path.write_text('{"0": [7]}')
    async with public_sc() as sc:
        await _with_spus(sc, 0, 1)
        capsys.readouterr()
        assert await tailrace(sc.network, "topic", "create", "orders", "--replica-assignment", str(path)) == 4
        said = capsys.readouterr()
        assert said.out == "created topic orders; its status is InvalidConfig\n"
        assert "partition 0 names the SPU 7, which does not exist. Correct it with" in said.err
        alter = ("topic", "alter", "orders")
        path.write_text('{"0": [8]}')
        assert await tailrace(sc.network, *alter, "--replica-assignment", str(path)) == 4
        assert "names the SPU 8, which" in capsys.readouterr().err
        assert await tailrace(sc.network, *alter, "--replication-factor", "3", "--config", "retention.ms=5") == 4
        assert "needs 3 SPUs, and 2 are available" in capsys.readouterr().err
        path.write_text('{"0": [1, 0], "1": [0, 1], "2": [0, 1]}')
        assert await tailrace(sc.network, *alter, "--replica-assignment", str(path), "--partitions", "3") == 0
        topic = sc.running.workflow.local.topics["orders"]
        assert topic.status.replica_map == {0: (1, 0), 1: (0, 1), 2: (0, 1)}
        assert topic.spec.configs == {"retention.ms": "5"}


async def test_a_topic_that_still_waits_after_the_wait_was_created(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 0)
        words = ("create", "wide", "--replication-factor", "2", "--wait", "0.01")
        assert await tailrace(sc.network, "topic", *words) == 4
        assert "needs 2 SPUs, and 1 is available" in capsys.readouterr().err


async def test_a_topic_is_altered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 0, 1)
        await tailrace(sc.network, "topic", "create", "orders", "--wait", "5", "--config", "retention.ms=60000")
        capsys.readouterr()
        path = tmp_path / "rows.yaml"
        path.write_text("[[1]]")
        words = ("--config", "cleanup.policy=compact", "--delete-config", "retention.ms", "--partitions", "2")
        status = await tailrace(sc.network, "topic", "alter", "orders", *words, "--replica-assignment", str(path))
        assert (status, capsys.readouterr().err) == (0, "")
        await tailrace(sc.network, "topic", "describe", "orders", "--output", "json")
        (document,) = json.loads(capsys.readouterr().out)
        assert document["spec"]["configs"] == {"cleanup.policy": "compact"}
        assert document["status"]["replicaMap"]["1"] == [1]

        assert await tailrace(sc.network, "topic", "alter", "orders", "--partitions", "1") == 1
        assert "1 is not more" in capsys.readouterr().err
        both = ("--partitions", "1", "--config", "retention.ms=7")
        assert await tailrace(sc.network, "topic", "alter", "orders", *both) == 1
        said = capsys.readouterr().err
        assert said.startswith(
            "tailrace topic alter: the configs were altered, but no partitions were added: orders has"
        )
        assert await tailrace(sc.network, "topic", "alter", "orders", "--config", "no.such=1") == 1
        assert "no.such" in capsys.readouterr().err
        assert await tailrace(sc.network, "topic", "alter", "other", "--partitions", "3") == 1
        assert "other" in capsys.readouterr().err


async def test_a_deleted_topic_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 0)
        await tailrace(sc.network, "topic", "create", "orders", "--wait", "5")
        capsys.readouterr()
        assert await tailrace(sc.network, "topic", "delete", "orders") == 0
        assert capsys.readouterr().out.startswith("deleted topic orders; ")
        assert await tailrace(sc.network, "topic", "describe", "orders") == 1
        assert capsys.readouterr().err == "tailrace topic describe: there is no topic orders\n"
        assert await tailrace(sc.network, "topic", "list", "--deleted") == 0
        (line,) = capsys.readouterr().out.splitlines()[1:]
        assert line.startswith("orders  ")
        assert line.endswith("  1  2023-11-14T22:13:20.000Z")
        assert await tailrace(sc.network, "topic", "undelete", "orders") == 0
        assert capsys.readouterr().out == "restored topic orders\n"
        assert await tailrace(sc.network, "topic", "undelete", "orders") == 1
        assert await tailrace(sc.network, "topic", "list", "--deleted", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == []


async def test_the_name_on_the_command_line_is_that_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "topic.yaml"
    path.write_text("kind: topic\nname: other\n")
    async with public_sc() as sc:
        assert await tailrace(sc.network, "topic", "create", "orders", "--file", str(path)) == 2
        said = capsys.readouterr().err
        assert said == f"tailrace topic create: {path}: name: it is 'other' and should be 'orders'\n"
        assert await tailrace(sc.network, "topic", "create", "other", "--file", str(path)) == 4, "no SPU is online"


async def test_a_topic_that_comes_back_may_still_wait_for_spus(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 0)
        await tailrace(sc.network, "topic", "create", "wide", "--replication-factor", "2")
        await tailrace(sc.network, "topic", "delete", "wide")
        capsys.readouterr()
        assert await tailrace(sc.network, "topic", "undelete", "wide") == 4
        said = capsys.readouterr()
        assert said.out == "restored topic wide; its status is InsufficientResources\n"
        assert "a replication factor of 2 needs 2 SPUs, and 1 is available" in said.err


async def test_topics_are_created_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topics.yaml"
    path.write_text("kind: topic\nname: a\nspec: {partitions: 2}\n---\nname: b\nconfigs: {retention.ms: 5}\n")
    async with public_sc() as sc:
        await _with_spus(sc, 0)
        capsys.readouterr()
        assert await tailrace(sc.network, "topic", "create", "--file", str(path), "--wait", "5") == 0
        assert capsys.readouterr().out == "created topic a\ncreated topic b\n"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("create",), "give the name of the topic, or --file"),
        (("create", "a/b"), "name: 'a/b' cannot name a topic: 1 to 249 ASCII letters, digits, '.', '_', '-'"),
        (("create", "a", "--partitions", "0"), "partitions: 0 is not a whole number from 1 to 100000"),
        (("create", "a", "--config", "retention.hours=5"), "configs: there is no topic config 'retention.hours'"),
        (("create", "a", "--config", "retention.ms"), "--config retention.ms: expected NAME=VALUE"),
        (("create", "a", "--config", "x=1", "--config", "x=2"), "--config x is given twice"),
        (("create", "a", "--file", "x", "--partitions", "2"), "--file: write partitions"),
        (("alter", "a"), "give --config, --delete-config, --partitions, --replication-factor or --replica-assignment"),
        (("alter", "a", "--partitions", "99999999999"), "--partitions: 99999999999 is not a whole number from 1 to"),
        (("alter", "a", "--config", "x=1", "--delete-config", "x"), "x is both set and deleted"),
        (("alter", "a", "--delete-config", "retention"), "--delete-config: there is no topic config 'retention'"),
    ],
)
async def test_wrong_usage(words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        assert await tailrace(sc.network, "topic", *words) == 2
        assert capsys.readouterr().err.startswith(f"tailrace topic {words[0]}: {fault}")


async def test_internal_topics_are_listed_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 0)
        for name in ("orders", "__consumer_offsets"):
            (created,) = await sc.running.administration.create_topics([NewTopic(name, 1, 1)])
            assert isinstance(created, TopicSpec)
        for words in (("topic", "list"), ("partition", "list"), ("replica", "list"), ("topic", "list", *BOOTSTRAP)):
            capsys.readouterr()
            assert await tailrace(sc.network, *words) == 0
            shown = capsys.readouterr().out
            assert ("orders" in shown, "__consumer_offsets" in shown) == (True, False)
            assert await tailrace(sc.network, *words, "--internal") == 0
            assert "__consumer_offsets" in capsys.readouterr().out
        assert await tailrace(sc.network, "partition", "list", "__consumer_offsets") == 0
        assert "__consumer_offsets" in capsys.readouterr().out


async def test_configs_that_change_nothing_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_spus(sc, 1)
        capsys.readouterr()
        words = ("--config", "preallocate=true", "--config", "retention.ms=1000")
        assert await tailrace(sc.network, "topic", "create", "orders", *words, "--wait", "5") == 0
        assert capsys.readouterr().err == "tailrace topic create: preallocate has no effect in Tailrace\n"
        assert await tailrace(sc.network, "topic", "alter", "orders", *words) == 0
        assert capsys.readouterr().err == "tailrace topic alter: preallocate has no effect in Tailrace\n"
        assert await tailrace(sc.network, "topic", "alter", "orders", "--delete-config", "preallocate") == 0
        assert capsys.readouterr().err == ""
        path = tmp_path / "objects.json"
        group = {"kind": "spu-group", "name": "edge", "minId": 11, "template": {"configs": {"num.io.threads": 4}}}
        path.write_text(json.dumps(group))
        assert await tailrace(sc.network, "apply", "--file", str(path)) == 0
        assert capsys.readouterr().err == "tailrace apply: num.io.threads has no effect in Tailrace\n"
