import json

import pytest
from msgspec.structs import replace
from public_sc import PublicSc, public_sc, tailrace

from tailrace.cli.objects.segment_commands import segment_table
from tailrace.cluster.specs import Shelf
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.describe_replica_segments import (
    DescribeReplicaSegmentsResponse,
    RangeContent,
    ReplicaSegment,
)
from tailrace.protocol.internal.describe_segments import DescribedShelf, SegmentedPartition

SEALED = ReplicaSegment(0, 5, 0, 1, 500, 0xAB, "sealed", "bridge")
FULL = ReplicaSegment(5, 8, 1, 1, 12_300, 0xCDEF, "sealing", "full")
OPEN = ReplicaSegment(8, 9, 1, 1, 70, 1, "open")
WHOLE = DescribeReplicaSegmentsResponse(
    log_start=0, log_end=9, high_watermark=6, segments=[SEALED, FULL, OPEN], contents=[RangeContent(0, 5, 77)]
)
BEHIND = replace(WHOLE, log_end=7, segments=[replace(SEALED, checksum=1), replace(FULL, end=7)])


async def _with_a_topic(sc: PublicSc, *segments: DescribeReplicaSegmentsResponse) -> None:
    for each, said in enumerate(segments, 1):
        words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
        assert await tailrace(sc.network, "spu", "register", *words) == 0
        sc.running.spus.segments[each] = said
        await sc.running.connect(each)
    words = ("--partitions", "1", "--replication-factor", str(len(segments)), "--wait", "5")
    assert await tailrace(sc.network, "topic", "create", "orders", *words) == 0


async def test_each_segment_with_its_copies(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc, WHOLE, BEHIND, DescribeReplicaSegmentsResponse("bits have flipped"))
        capsys.readouterr()
        assert await tailrace(sc.network, "segment", "list", "orders") == 0
        assert capsys.readouterr().out.splitlines() == [
            "PARTITION  BASE  END  EPOCH   SIZE       STATE    SEALED BY  CHECKSUM  COPIES",
            "        0     0    5  0 to 1  500 bytes  sealed   bridge     000000ab  1, 2 (same records), "
            "3 (not compared)",
            "        0     5    8  1       12.3 kB    sealing  full       0000cdef  1, 2 (shorter: up to 7), "
            "3 (not compared)",
            "        0     8    9  1       70 bytes   open     -          -         1, 2 (missing), 3 (not compared)",
            "orders/0: SPU 3: bits have flipped",
        ]


async def test_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc, WHOLE, BEHIND)
        capsys.readouterr()
        assert await tailrace(sc.network, "segment", "list", "orders/0", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert (document["topic"], document["partition"], document["leader"], document["toldBy"]) == ("orders", 0, 1, 1)
        assert (document["logStart"], document["logEnd"], document["highWatermark"]) == (0, 9, 6)
        assert document["segments"][0] == {
            "base": 0,
            "end": 5,
            "epochs": [0, 1],
            "sizeBytes": 500,
            "state": "sealed",
            "sealedBy": "bridge",
            "checksum": "000000ab",
            "copies": [
                {"spuId": 1, "comparison": "same", "logEnd": 9},
                {"spuId": 2, "comparison": "same records", "logEnd": 7},
            ],
        }
        assert (document["segments"][2]["sealedBy"], document["segments"][2]["checksum"]) == (None, None)
        assert document["holders"][1] == {"spuId": 2, "logEnd": 7, "error": None}


async def test_what_is_on_shelves_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc, *[replace(WHOLE, log_start=8, segments=[OPEN])] * 2)
        for spu in (3, 4):
            words = ("--id", str(spu), "--public", f"spu-{spu}:9005", "--private", f"spu-{spu}:9006")
            assert await tailrace(sc.network, "spu", "register", *words) == 0
        await sc.running.shelve(Shelf(0, 5, (SpuId(3), SpuId(4))), Shelf(5, 8, (SpuId(3),), (SpuId(4),)))
        capsys.readouterr()
        assert await tailrace(sc.network, "segment", "list", "orders") == 0
        assert capsys.readouterr().out.splitlines() == [
            "PARTITION  BASE  END  EPOCH  SIZE      STATE    SEALED BY  CHECKSUM  COPIES",
            "        0     0    5      -  -         shelved          -         -  3, 4",
            "        0     5    8      -  -         shelved          -         -  3, 4 (being filled)",
            "        0     8    9      1  70 bytes  open             -         -  1, 2",
        ]
        assert await tailrace(sc.network, "segment", "list", "orders", "--output", "json") == 0
        (document,) = json.loads(capsys.readouterr().out)
        assert document["shelves"][1] == {"base": 5, "end": 8, "stores": [3], "filling": [4]}
        assert (len(document["segments"]), document["olderShelves"]) == (1, 0)


async def test_older_ones_and_those_that_nobody_leads(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc, DescribeReplicaSegmentsResponse("no"), replace(WHOLE, segments=[FULL], older_count=1))
        capsys.readouterr()
        assert await tailrace(sc.network, "segment", "list", "orders/0", "--before", "8") == 0
        assert capsys.readouterr().out.splitlines()[2:] == [
            "orders/0: SPU 1: no",
            "orders/0: leader SPU 1 does not answer; the segments are those of SPU 2",
            "orders/0: 1 older segments are not shown; use --before 5",
        ]
        assert {request.before for _, request in sc.running.spus.asked_for_segments} == {8}


async def test_what_is_not_there_or_cannot_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        await _with_a_topic(sc, WHOLE)
        capsys.readouterr()
        assert await tailrace(sc.network, "segment", "list", "orders/5") == 1
        assert capsys.readouterr().err == "tailrace segment list: there is no partition orders/5\n"
        assert await tailrace(sc.network, "segment", "list", "other") == 1
        assert await tailrace(sc.network, "segment", "list", "orders/x") == 2
        with pytest.raises(SystemExit):
            await tailrace(sc.network, "segment", "list", "orders", "--before", "soon")


def test_that_there_are_older_shelves_is_said() -> None:
    shelves = [DescribedShelf(5, 8, [2])]
    partition = SegmentedPartition("orders", partition=0, leader=1, told_by=1, shelves=shelves, older_shelves=3)
    assert segment_table([partition]).splitlines()[-1] == ("orders/0: 3 older shelves are not shown; use --before 5")
