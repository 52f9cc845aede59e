"""`tailrace topic alter --replication-factor` on a whole cluster in memory."""

from collections import Counter

import pytest
from administered_cluster import administered_cluster
from trio.testing import MockClock

Capture = pytest.CaptureFixture[str]


async def test_topics_of_a_cluster_that_grew_get_copies_and_other_leaders(
    autojump_clock: MockClock, capsys: Capture
) -> None:
    async with administered_cluster(1) as administered:
        assert await administered.topic("create", "orders", "--partitions", "3", "--wait", "20") == 0
        assert await administered.topic("create", "payments", "--wait", "20") == 0
        await administered.join(2, 3)
        capsys.readouterr()
        assert await administered.topic("alter", "--all", "--replication-factor", "3") == 0
        shown = capsys.readouterr()
        assert shown.err.endswith("tailrace topic alter: 4 partitions have 3 replicas now\n")
        assert [line.split()[:3] for line in shown.out.splitlines()[1:]] == [
            ["orders", "3", "3"],
            ["payments", "1", "3"],
        ]
        rows = await administered.rows("orders")
        assert all(sorted(replicas) == in_sync == [1, 2, 3] for replicas, in_sync, _ in rows.values())
        assert Counter(leader for _, _, leader in rows.values()) == {1: 1, 2: 1, 3: 1}
        assert await administered.topic("alter", "orders", "--replication-factor", "3", bootstrap=2) == 0
        assert capsys.readouterr().err == "tailrace topic alter: every partition has 3 replicas already\n"


async def test_replicas_are_removed_again_and_too_many_are_refused(autojump_clock: MockClock, capsys: Capture) -> None:
    async with administered_cluster(1, 2) as administered:
        assert await administered.topic("create", "orders", "--replication-factor", "2", "--wait", "20") == 0
        capsys.readouterr()
        assert await administered.topic("alter", "orders", "--replication-factor", "3") == 1
        assert "orders: a replication factor of 3 needs 3 SPUs, and 2 are available" in capsys.readouterr().err
        assert await administered.topic("alter", "orders", "--replication-factor", "1", bootstrap=1) == 0
        assert "REPLICAS" in capsys.readouterr().out
        assert [len(replicas) for replicas, _, _ in (await administered.rows("orders")).values()] == [1]


@pytest.mark.parametrize(
    "words",
    [
        ("--all", "orders", "--replication-factor", "1"),
        ("--all", "--partitions", "3"),
        ("--all",),
        ("--replication-factor", "2"),
    ],
)
async def test_all_topics_get_only_another_replication_factor(words: tuple[str, ...], capsys: Capture) -> None:
    async with administered_cluster() as administered:
        assert await administered.topic("alter", *words) == 2
        assert capsys.readouterr().err.startswith("tailrace topic alter: ")
