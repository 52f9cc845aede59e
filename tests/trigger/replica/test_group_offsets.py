"""Tests where shards begin, claims and commits, with a real coordinator on a simulated network."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from grouped_spu import GroupedSpu, grouped_spu
from scripted_brokers import ScriptedBroker, scripted_brokers
from spus import ADDRESS

from tailrace.client.group_client import GroupClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from tailrace.trigger.config.trigger_config import SeekTo
from tailrace.trigger.replica.group_offsets import Claim, FencedError, GroupOffsets, Mark
from tailrace.trigger.work import Shard

SHARD = Shard("orders", 0)
PARTITION = Partition("orders", 0)


@asynccontextmanager
async def _topic(spu: GroupedSpu, records: int = 5) -> AsyncIterator[GroupClient]:
    await spu.running.create("orders")
    await spu.produce("orders", 0, records)
    spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
    yield GroupClient(spus)
    spus.close()


def _offsets(spu: GroupedSpu, member: str = "replica1") -> GroupOffsets:
    return GroupOffsets(SpuClient(spu.network, [ADDRESS], BOOTSTRAP), "billing", member)


@pytest.mark.parametrize(("seek_to", "offset"), [(SeekTo.EARLIEST, 2), (SeekTo.LATEST, 5)])
async def test_a_shard_without_an_offset_begins_where_the_trigger_seeks(
    autojump_clock: object, seek_to: SeekTo, offset: int
) -> None:
    async with grouped_spu() as spu, _topic(spu) as group:
        await spu.delete_records("orders", 0, 2)
        offsets = _offsets(spu)
        assert await offsets.claim(SHARD, 1, seek_to) == Claim(offset, was_committed=False)
        found = (await group.committed_in("billing", [PARTITION]))[PARTITION]
        assert found is not None and not isinstance(found, RefusedError)
        assert (found.committed, found.metadata) == (offset, "trigger epoch=1 member=replica1")
        offsets.close()


async def test_a_committed_offset_counts_whatever_the_trigger_seeks(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _topic(spu):
        await spu.commit("billing", "orders", {0: 3})
        for seek_to in SeekTo:
            offsets = _offsets(spu)
            assert await offsets.claim(SHARD, 1, seek_to) == Claim(3, was_committed=True)
            offsets.close()


async def test_a_late_commit_of_an_earlier_owner_is_fenced(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _topic(spu):
        before, after = _offsets(spu), _offsets(spu, member="replica2")
        await before.claim(SHARD, 1, SeekTo.EARLIEST)
        assert await before.commit({SHARD: Mark(2, 1)}) == {SHARD: None}
        assert await after.claim(SHARD, 2, SeekTo.EARLIEST) == Claim(2, was_committed=True)
        refused = (await before.commit({SHARD: Mark(4, 1)}))[SHARD]
        assert refused is not None
        assert refused.code == ErrorCode.STALE_MEMBER_EPOCH
        assert await after.claim(SHARD, 2, SeekTo.EARLIEST) == Claim(2, was_committed=True)
        with pytest.raises(FencedError, match="whose epoch is 2") as fenced:
            await before.claim(SHARD, 1, SeekTo.EARLIEST)
        assert fenced.value.epoch == 2
        before.close()
        after.close()


async def test_a_claim_keeps_what_the_previous_owner_commits_in_the_last_moment(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _topic(spu):
        before, after = _offsets(spu), _LateClaim(SpuClient(spu.network, [ADDRESS], BOOTSTRAP), "billing", "replica2")
        await before.claim(SHARD, 1, SeekTo.EARLIEST)

        async def commit_late() -> None:
            assert await before.commit({SHARD: Mark(4, 1)}) == {SHARD: None}

        after.before_first_commit = commit_late
        assert await after.claim(SHARD, 2, SeekTo.EARLIEST) == Claim(4, was_committed=True)
        assert (await before.commit({SHARD: Mark(5, 1)}))[SHARD] is not None
        before.close()
        after.close()


class _LateClaim(GroupOffsets):
    """Offsets of a replica whose first commit comes after something else."""

    before_first_commit: Callable[[], Awaitable[None]] | None = None

    async def _commit(self, marks: Mapping[Shard, Mark]) -> dict[Shard, RefusedError | None]:
        precede, self.before_first_commit = self.before_first_commit, None
        if precede is not None:
            await precede()
        return await super()._commit(marks)


async def test_the_log_start_of_a_shard(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _topic(spu):
        await spu.delete_records("orders", 0, 4)
        offsets = _offsets(spu)
        assert await offsets.log_start(SHARD) == 4
        offsets.close()


async def test_a_shard_that_does_not_exist(autojump_clock: object) -> None:
    async with grouped_spu() as spu, _topic(spu):
        offsets = _offsets(spu)
        with pytest.raises(RefusedError):
            await offsets.claim(Shard("orders", 7), 1, SeekTo.EARLIEST)
        offsets.close()


async def test_commits_do_not_wait_for_a_shard_without_a_leader(autojump_clock: object) -> None:
    def script(_: ScriptedBroker, request: Any) -> Any:
        if isinstance(request, OffsetCommitRequest):
            committed = OffsetCommitResponseTopic("orders", partitions=[OffsetCommitResponsePartition(0)])
            return OffsetCommitResponse(topics=[committed])
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("billing")])

    async with scripted_brokers(script) as cluster, trio.open_nursery() as nursery:
        cluster.leaders["returns"] = [-1]
        offsets = GroupOffsets(SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP), "billing", "replica1")
        nursery.start_soon(offsets.claim, Shard("returns", 0), 1, SeekTo.EARLIEST)
        await trio.sleep(1.0)
        with trio.fail_after(1.0):
            assert await offsets.commit({SHARD: Mark(2, 1)}) == {SHARD: None}
        nursery.cancel_scope.cancel()
        offsets.close()
