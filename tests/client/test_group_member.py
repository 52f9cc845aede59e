from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from record_commands import RecordCommands, record_commands
from scripted_brokers import ScriptedBroker, scripted_brokers
from spus import ADDRESS

from tailrace.client.group_client import GroupClient
from tailrace.client.group_member import GroupMember
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.heartbeat import HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.sync_group import SyncGroupResponse

HERE = Partition("orders", 0)


@asynccontextmanager
async def _member(commands: RecordCommands) -> AsyncIterator[GroupMember]:
    spus = SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)
    logs = LogClient(spus.another())

    async def partitions_of(topics: Sequence[str]) -> Mapping[str, Sequence[Partition]]:
        return {topic: unless_refused(found) for topic, found in (await logs.partitions(topics)).items()}

    yield GroupMember(spus, "g", partitions_of)
    spus.close()


async def test_members_share_the_partitions_and_pass_them_on(
    autojump_clock: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async def send() -> None:
        for number in range(4):
            assert await commands.produce("v\n", f"orders/{number}") == 0

    async with record_commands(partitions=4) as commands, _member(commands) as member, trio.open_nursery() as nursery:
        nursery.start_soon(commands.consume, "orders", "--values", "--group", "g", "--follow", "--count", "6")
        await trio.sleep(10)
        await send()
        await trio.sleep(1)
        nursery.start_soon(member.stay_alive)
        mine = await member.join(["orders"])
        assert len(mine) == 2
        committed = unless_refused((await GroupClient(_spus(commands)).committed(["g"]))["g"])
        assert [each.committed for each in committed] == [1] * 4
        await send()
        await trio.sleep(10)  # the command has printed two records more, and has left
        assert member.must_rejoin
        assert len(await member.join(["orders"])) == 4
        assert await member.commit(dict.fromkeys(mine, 2))
        await member.leave()
        await member.leave()
        nursery.cancel_scope.cancel()
    assert capsys.readouterr().out.splitlines().count("v") == 6


def _spus(commands: RecordCommands) -> SpuClient:
    return SpuClient(commands.running.world.network, [ADDRESS], BOOTSTRAP)


class _Coordinator:
    """Responds with scripted error codes, and with success when they are used up."""

    def __init__(self, **codes: list[ErrorCode]) -> None:
        self.codes = codes
        self.heard: list[str] = []

    def __call__(self, broker: ScriptedBroker, request: Any) -> Any:
        name = ApiKey(request.API_KEY).name.lower()
        self.heard.append(name)
        codes = self.codes.get(name, [])
        code = codes.pop(0) if codes else ErrorCode.NONE
        match name:
            case "join_group":
                return JoinGroupResponse(error_code=code, generation_id=3, member_id="me", leader="other")
            case "sync_group":
                assignment = (
                    bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("00000001 00000000 ffffffff")
                )
                return SyncGroupResponse(error_code=code, assignment=assignment)
            case "heartbeat":
                return HeartbeatResponse(error_code=code)
        partitions = [OffsetCommitResponsePartition(0, code)]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=partitions)])


@asynccontextmanager
async def _scripted(coordinator: _Coordinator) -> AsyncIterator[GroupMember]:
    async def no_partitions(topics: Sequence[str]) -> Mapping[str, Sequence[Partition]]:
        return {}

    async with scripted_brokers(coordinator) as cluster:
        spus = SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP)
        yield GroupMember(spus, "g", no_partitions)
        spus.close()


@pytest.mark.parametrize(
    "codes",
    [
        {"join_group": [ErrorCode.MEMBER_ID_REQUIRED]},
        {"join_group": [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]},
        {"join_group": [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]},
        {"sync_group": [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION]},
    ],
)
async def test_it_joins_again_until_the_group_is_ready(
    autojump_clock: object, codes: dict[str, list[ErrorCode]]
) -> None:
    async with _scripted(_Coordinator(**codes)) as member:
        assert await member.join(["orders"]) == [HERE]
        assert not member.must_rejoin


async def test_a_group_with_another_assignor_is_named(autojump_clock: object) -> None:
    async with _scripted(_Coordinator(join_group=[ErrorCode.INCONSISTENT_GROUP_PROTOCOL])) as member:
        with pytest.raises(RefusedError, match="the members of group g do not use the assignor range"):
            await member.join(["orders"])
    async with _scripted(_Coordinator(sync_group=[ErrorCode.GROUP_AUTHORIZATION_FAILED])) as member:
        with pytest.raises(RefusedError, match="GROUP_AUTHORIZATION_FAILED"):
            await member.join(["orders"])


@pytest.mark.parametrize(
    ("code", "was_removed"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
    ],
)
async def test_a_heartbeat_tells_that_the_group_moves_on(
    autojump_clock: object, code: ErrorCode, was_removed: bool
) -> None:
    async with _scripted(_Coordinator(heartbeat=[ErrorCode.NONE, code])) as member, trio.open_nursery() as nursery:
        nursery.start_soon(member.stay_alive)
        await member.join(["orders"])
        await trio.sleep(3)
        assert not member.must_rejoin
        await trio.sleep(2)
        assert (member.must_rejoin, member.was_removed) == (True, was_removed)
        nursery.cancel_scope.cancel()


async def test_a_commit_is_repeated_while_the_coordinator_moves(autojump_clock: object) -> None:
    coordinator = _Coordinator(offset_commit=[ErrorCode.NOT_COORDINATOR, ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION])
    async with _scripted(coordinator) as member:
        await member.join(["orders"])
        assert await member.commit({HERE: 1})
        assert coordinator.heard.count("offset_commit") == 2
        assert not await member.commit({HERE: 2})
        assert (member.must_rejoin, member.was_removed) == (True, True)
        coordinator.codes["offset_commit"] = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        with pytest.raises(RefusedError, match="OFFSET_METADATA_TOO_LARGE"):
            await member.commit({HERE: 2})
