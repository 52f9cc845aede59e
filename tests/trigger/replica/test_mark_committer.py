"""Tests commits of marks with a real coordinator; `test_trigger_replica.py` tests when marks are committed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from grouped_spu import GroupedSpu, grouped_spu
from msgspec import Struct
from spus import ADDRESS
from structlog.testing import capture_logs

from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.runtime.network import Address
from tailrace.trigger.config.trigger_config import SeekTo
from tailrace.trigger.replica.group_offsets import Claim, GroupOffsets
from tailrace.trigger.replica.mark_committer import MarkCommitter
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.work import Shard


class _Marked(Struct):
    shard: Shard
    epoch: int
    mark: int
    committed: int = -1
    times_fenced: int = 0

    def on_fenced(self) -> None:
        self.times_fenced += 1


def _offsets(spu: GroupedSpu, *addresses: Address) -> GroupOffsets:
    spus = SpuClient(spu.network, addresses or (ADDRESS,), BOOTSTRAP)
    return GroupOffsets(spus, "billing", "replica1")


@asynccontextmanager
async def _spu() -> AsyncIterator[tuple[GroupedSpu, GroupOffsets]]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 3)
        offsets = _offsets(spu)
        yield spu, offsets
        offsets.close()


async def test_only_marks_that_have_changed_are_committed(autojump_clock: object) -> None:
    async with _spu() as (_, offsets):
        metrics = ReplicaMetrics()
        committer = MarkCommitter(offsets, metrics, structlog.get_logger())
        shards = [_Marked(Shard("orders", 0), 1, 5), _Marked(Shard("orders", 1), 1, 7, 7)]
        unclaimed = _Marked(Shard("orders", 2), 1, -1)
        assert await committer.commit([*shards, unclaimed])
        assert ([each.committed for each in shards], unclaimed.committed, metrics.commits) == ([5, 7], -1, 1)
        assert await committer.commit(shards)
        assert metrics.commits == 1
        assert await committer.commit([*shards, unclaimed], unchanged=True)
        assert metrics.commits == 3
        assert await offsets.claim(Shard("orders", 0), 2, SeekTo.EARLIEST) == Claim(5, True)


async def test_a_fenced_mark_is_final(autojump_clock: object) -> None:
    async with _spu() as (_, offsets):
        metrics = ReplicaMetrics()
        committer = MarkCommitter(offsets, metrics, structlog.get_logger())
        shard, other = _Marked(Shard("orders", 0), 1, 5), _Marked(Shard("orders", 1), 1, 5)
        await offsets.claim(shard.shard, 2, SeekTo.EARLIEST)
        assert await committer.commit([shard, other])
        assert (metrics.fenced_commits, shard.times_fenced, shard.committed) == (1, 1, -1)
        assert (metrics.commits, other.times_fenced, other.committed) == (1, 0, 5)


async def test_a_commit_without_a_coordinator_is_logged_once_and_can_be_repeated(autojump_clock: object) -> None:
    async with _spu() as (spu, _):
        metrics = ReplicaMetrics()
        nowhere = _offsets(spu, Address("nowhere", 1))
        committer = MarkCommitter(nowhere, metrics, structlog.get_logger())
        shard = _Marked(Shard("orders", 0), 1, 5)
        with capture_logs() as logged:
            assert not await committer.commit([shard])
            assert not await committer.commit([shard])
        assert [each["event"] for each in logged] == ["marks_not_committed"]
        assert (metrics.failed_commits, shard.committed) == (2, -1)
        nowhere.close()
