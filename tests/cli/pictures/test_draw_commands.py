import json

import pytest
from public_sc import PublicSc, public_sc, tailrace

from tailrace.protocol.internal.describe_replica_segments import DescribeReplicaSegmentsResponse, ReplicaSegment

HELD = DescribeReplicaSegmentsResponse(
    log_end=9, high_watermark=6, segments=[ReplicaSegment(0, 9, 0, 0, 500, 0xAB, "open")]
)


async def _with_a_topic(sc: PublicSc) -> None:
    for each in (1, 2):
        words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
        assert await tailrace(sc.network, "spu", "register", *words) == 0
        sc.running.spus.segments[each] = HELD
        sc.log_ends[each] = 9
        await sc.running.connect(each)
    words = ("--partitions", "2", "--replication-factor", "2", "--wait", "5")
    assert await tailrace(sc.network, "topic", "create", "orders", *words) == 0


async def test_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc)
        capsys.readouterr()
        assert await tailrace(sc.network, "draw", "cluster") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "SC (spu: 2, spu-group: 0, topic: 1, partition: 2, stream-state: 0, trigger: 0)"
        assert [each for each in lines if "SPU" in each] == ["   +---- SPU 1, Online", "   +---- SPU 2, Online"]
        assert await tailrace(sc.network, "draw", "cluster", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["objects"]["partition"], document["connected"]) == (2, [1, 2])
        assert [each["spec"]["spuId"] for each in document["spus"]] == [1, 2]
        assert set(document["controllers"]) == {"1", "2"}


async def test_a_partition_also_while_nobody_says_who_reads_it(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc)
        capsys.readouterr()
        assert await tailrace(sc.network, "draw", "partition", "orders/1") == 0
        picture = capsys.readouterr().out
        assert picture.startswith("orders/1: Online, epoch 0\n")
        assert "SPU 1  [------------>\nSPU 2  [------------>\n" in picture
        assert picture.endswith("the groups that read the partition are unknown: not all SPUs responded within 3 s\n")
        assert await tailrace(sc.network, "draw", "partition", "orders/1", "--output", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["partition"], document["marks"], len(document["segments"])) == (1, {}, 1)


@pytest.mark.parametrize(
    ("named", "status", "sentence"),
    [
        ("orders", 2, "orders: name one partition, such as orders/0"),
        ("orders/one", 2, "orders/one: expected TOPIC or TOPIC/PARTITION"),
        ("nothing/0", 1, "there is no topic nothing"),
    ],
)
async def test_what_cannot_be_drawn(named: str, status: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc)
        assert await tailrace(sc.network, "draw", "partition", named) == status
        assert capsys.readouterr().err == f"tailrace draw partition: {sentence}\n"


async def test_a_partition_that_a_topic_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc)
        assert await tailrace(sc.network, "draw", "partition", "orders/7") == 1
        assert "orders/7" in capsys.readouterr().err
