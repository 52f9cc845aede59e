import json
from uuid import UUID

import pytest
from public_sc import public_sc, tailrace

from tailrace.cli.objects.replica_commands import replica_document, replica_table, replicas_of
from tailrace.protocol.internal.describe_partitions import DescribedPartition, ReplicaDetail


async def test_what_each_spu_holds(capsys: pytest.CaptureFixture[str]) -> None:
    async with public_sc() as sc:
        for each in (1, 2):
            words = ("--id", str(each), "--public", f"spu-{each}:9005", "--private", f"spu-{each}:9006")
            assert await tailrace(sc.network, "spu", "register", *words) == 0
        await sc.running.connect(1, 2)
        words = ("--replication-factor", "2", "--wait", "5")
        for topic in ("orders", "payments"):
            assert await tailrace(sc.network, "topic", "create", topic, *words) == 0
        sc.log_ends |= {1: 7, 2: 5}
        capsys.readouterr()
        assert await tailrace(sc.network, "replica", "list", "orders") == 0
        assert capsys.readouterr().out == (
            "SPU  TOPIC   PARTITION  ROLE      EPOCH  LIVE  LOG START  LEO  HW  LAG  SIZE       ERROR\n"
            "  1  orders          0  leader        0  yes           0    7   5    0  490 bytes      -\n"
            "  2  orders          0  follower      0  yes           0    5   5    2  350 bytes      -\n"
        )
        assert await tailrace(sc.network, "replica", "list", "--spu", "2", "--output", "json") == 0
        shown = [(each["spuId"], each["topic"], each["role"]) for each in json.loads(capsys.readouterr().out)]
        assert shown == [(2, "orders", "follower"), (2, "payments", "follower")]
        assert await tailrace(sc.network, "replica", "list", "other") == 1
        assert capsys.readouterr().err == "tailrace replica list: there is no topic other\n"


def test_what_an_spu_does_not_say_is_a_dash() -> None:
    failed = ReplicaDetail(1, 0, 5, 5, 100, "append failed", 4)
    partition = DescribedPartition("t", UUID(int=5), 3, "Online", 2, 4, [2, 1], [2], "", [failed])
    held = replicas_of([partition], [])
    first, second = replica_table(held).splitlines()[1:]
    assert first.split("  ")[-1] == "append failed"
    assert second.split()[3:] == ["-", "-", "yes", *["-"] * 6]
    assert replica_document(held[1])["role"] is None
    assert replica_document(held[0])["isLive"] is False
