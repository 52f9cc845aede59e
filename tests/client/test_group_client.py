"""Tests requests about groups while coordinators move; `test_group_commands.py` tests the output."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from grouped_spu import grouped_spu
from scripted_brokers import Script, ScriptedBroker, ScriptedBrokers, scripted_brokers
from spus import ADDRESS

from tailrace.client.group_client import GroupClient
from tailrace.client.group_facts import Group, Progress
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.cluster.stream_state.commit_epochs import CommitEpoch, format_commit_epoch
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.explain_group import ExplainGroupResponse
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import OffsetDeleteResponse

HERE, THERE = Partition("orders", 0), Partition("orders", 1)


@asynccontextmanager
async def _scripted(script: Script, *ids: int) -> AsyncIterator[tuple[GroupClient, ScriptedBrokers]]:
    async with scripted_brokers(script, *ids) as cluster:
        spus = SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)
        yield GroupClient(spus), cluster
        spus.close()


def _moved(count: int, then: Any) -> Script:
    """Scripts coordinators that have moved: the first requests go to the wrong SPU."""
    said = [_refused(then)] * count + [then]
    return lambda broker, request: said.pop(0)


def _refused(answer: Any) -> Any:
    """Makes a response of this kind with an error at the place that the API has for it."""
    code = ErrorCode.NOT_COORDINATOR
    match answer:
        case OffsetCommitResponse():
            partitions = [OffsetCommitResponsePartition(number, code) for number in range(2)]
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=partitions)])
        case DeleteGroupsResponse():
            return DeleteGroupsResponse(results=[DeletableGroupResult("g", code)])
    return type(answer)(error_code=code)


async def test_a_commit_follows_the_coordinator(autojump_clock: object) -> None:
    partitions = [OffsetCommitResponsePartition(0), OffsetCommitResponsePartition(1, ErrorCode.UNKNOWN_MEMBER_ID)]
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=partitions)])
    async with _scripted(_moved(2, answer)) as (client, cluster):
        changed = await client.commit("g", {THERE: 7, HERE: 5})
        assert changed[HERE] is None
        refused = changed[THERE]
        assert refused is not None
        assert refused.code == ErrorCode.UNKNOWN_MEMBER_ID
        commits = [each for each in cluster.brokers[1].heard if each.API_KEY == ApiKey.OFFSET_COMMIT]
        assert len(commits) == 3
        (topic,) = commits[2].topics
        assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 5), (1, 7)]


async def test_a_coordinator_that_does_not_respond_keeps_no_other_group_from_its_commit(autojump_clock: object) -> None:
    partition = OffsetCommitResponsePartition(0)
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=[partition])])
    async with scripted_brokers(lambda broker, request: None if broker.id == 2 else answer, 1, 2) as cluster:
        cluster.coordinators = {"silent": 2}
        spus = SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP).impatient(3.0)
        began = trio.current_time()
        changed = await GroupClient(spus).commit_each({"silent": {HERE: 1}, "one": {HERE: 2}, "two": {HERE: 3}})
        assert trio.current_time() - began < 5
        assert isinstance(changed["silent"], RefusedError)
        assert changed["one"] == changed["two"] == {HERE: None}
        commits = [each for each in cluster.brokers[1].heard if each.API_KEY == ApiKey.OFFSET_COMMIT]
        assert [each.group_id for each in commits] == ["one", "two"]
        spus.close()


async def test_everything_else_does_so_too(autojump_clock: object) -> None:
    async with _scripted(_moved(1, ExplainGroupResponse(state="Stable"))) as (client, _):
        explained = await client.explain("g")
        assert isinstance(explained, ExplainGroupResponse)
        assert explained.state == "Stable"
    async with _scripted(_moved(1, DeleteGroupsResponse(results=[DeletableGroupResult("g")]))) as (client, _):
        assert await client.delete(["g"]) == {"g": None}
    async with _scripted(_moved(1, OffsetDeleteResponse())) as (client, _):
        assert await client.delete_offsets("g", [HERE]) == {}


async def test_a_group_that_lets_nothing_be_forgotten_is_refused_as_a_whole() -> None:
    def script(broker: ScriptedBroker, request: object) -> object:
        return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)

    async with _scripted(script) as (client, _):
        with pytest.raises(RefusedError) as caught:
            await client.delete_offsets("g", [HERE])
        assert caught.value.code == ErrorCode.NON_EMPTY_GROUP


async def test_the_groups_of_all_coordinators_are_listed_in_order(autojump_clock: object) -> None:
    loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def script(broker: ScriptedBroker, request: object) -> object:
        if broker.id == 2 and loading:
            return ListGroupsResponse(error_code=loading.pop())
        names = {1: ["b", "d"], 2: ["a"], 3: []}[broker.id]
        return ListGroupsResponse(groups=[ListedGroup(name, "consumer", "Empty", "Classic") for name in names])

    async with _scripted(script, 1, 2, 3) as (client, _):
        listed = await client.listed([], [])
        assert [(each.id, each.coordinator) for each in listed] == [("a", 2), ("b", 1), ("d", 1)]


async def test_how_far_a_group_is_where_nobody_leads_is_not_known(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        topic = await spu.running.create("orders", 1)
        await spu.commit("g", "orders", {0: 0})
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = GroupClient(spus)
        group = (await client.describe(["g"]))["g"]
        assert isinstance(group, Group)
        ((progress,),) = (await client.progress([group])).values()
        assert (progress.partition, progress.committed, progress.log) == (HERE, 0, LogEnds(0, 0))
        await spu.running.delete(topic)
        for each in (await client.progress([group])).values():
            assert all(row.log is None for row in each)
        spus.close()


async def test_the_first_unread_record_is_one_that_is_still_there(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 1)
        await spu.produce("orders", 0, 5, timestamp=1_000)
        await spu.commit("g", "orders", {0: 1})
        await spu.delete_records("orders", 0, 3)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = GroupClient(spus)
        group = (await client.describe(["g"]))["g"]
        assert isinstance(group, Group)
        ((progress,),) = (await client.progress([group])).values()
        assert (progress.committed, progress.lag, progress.unread_since_ms) == (1, 4, 1_003)
        spus.close()


async def test_commits_keep_metadata_and_a_fenced_one_is_refused_alone(autojump_clock: object) -> None:
    def text(epoch: int) -> str:
        return format_commit_epoch(CommitEpoch(epoch, "replica1"))

    async with grouped_spu() as spu:
        await spu.running.create("orders", 3)
        spus = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        client = GroupClient(spus)
        committed = await client.commit("g", {HERE: 5, THERE: 6}, {HERE: text(2), THERE: text(4)})
        assert committed == {HERE: None, THERE: None}
        late = await client.commit("g", {HERE: 7, THERE: 8}, {HERE: text(3), THERE: text(3)})
        assert late[HERE] is None
        fenced = late[THERE]
        assert fenced is not None
        assert fenced.code == ErrorCode.STALE_MEMBER_EPOCH
        nowhere = Partition("orders", 2)
        assert await client.committed_in("g", [THERE, HERE, nowhere]) == {
            HERE: Progress(HERE, 7, text(3)),
            THERE: Progress(THERE, 6, text(4)),
            nowhere: None,
        }
        spus.close()
