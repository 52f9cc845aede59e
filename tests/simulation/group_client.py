"""What every client of a group does in a simulation: find the coordinator, commit, and fetch offsets."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

import trio

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

from .client import WireClient
from .consumer import BEGINNING, Position
from .offset_history import NO_OFFSET, NO_TERM
from .patient_client import PatientClient, RetryError
from .simulated_group import Group
from .world import World

FIND_COORDINATOR_VERSION = 4
OFFSET_COMMIT_VERSION = 9
OFFSET_FETCH_VERSION = 9
ELSEWHERE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which another SPU, or the same one a little later, can serve the request."""
UNCERTAIN = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE}
)
"""Errors after which the request may have taken effect."""
REFUSALS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)


class RefusedError(Exception):
    """A coordinator that knows this client refuses its membership."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class GroupClient:
    def __init__(self, world: World, name: str, group: Group, chance: Random) -> None:
        self.client = PatientClient(world, name, chance)
        self.group = group
        self.member_id = ""
        self.instance_id: str | None = None
        self.term = NO_TERM
        """The member's generation or epoch."""
        self._commits = 0

    async def find(self) -> int:
        """Asks any SPU for the coordinator, and returns it."""
        request = FindCoordinatorRequest(coordinator_keys=[self.group.group_id])
        async with self.client.connected(self.client.any_spu()) as connected:
            response = await self.client.ask(connected, ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request)
        found = response.coordinators[0]
        self.check(found.error_code)
        node_id: int = found.node_id
        return node_id

    async def commit(self, connected: WireClient, positions: Mapping[int, Position]) -> None:
        """Commits offsets; raises RetryError if the outcome is unknown, and RefusedError if nothing is ever
        committed."""
        self.group.moments.reach("commit")
        topic = OffsetCommitRequestTopic(name=self.group.topic)
        writes = {}
        for partition, (offset, epoch) in positions.items():
            self._commits += 1
            mark = f"{self.client.name}/{self._commits}@{epoch}"
            history = self.group.offsets[partition]
            writes[partition] = history.on_commit(mark, offset, trio.current_time(), term=self.term)
            topic.partitions.append(OffsetCommitRequestPartition(partition, offset, epoch, committed_metadata=mark))
        request = OffsetCommitRequest(self.group.group_id, self.term, self.member_id, self.instance_id, topics=[topic])
        response = await self.client.ask(connected, ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, request)
        answered = {each.partition_index: each.error_code for each in response.topics[0].partitions}
        assert answered.keys() == positions.keys(), f"{self.client.name} got a response about {sorted(answered)}"
        for partition, code in answered.items():
            history = self.group.offsets[partition]
            if code == ErrorCode.NONE:
                history.on_acknowledged(writes[partition], trio.current_time())
            elif code not in UNCERTAIN:
                history.on_refused(writes[partition])
        for code in answered.values():
            self.check(code)

    async def fetch(self, connected: WireClient, partitions: Iterable[int] | None = None) -> dict[int, Position]:
        """Fetches committed offsets, as a member or, without a membership, as any client."""
        self.group.moments.reach("fetch")
        asked = sorted(range(len(self.group.partitions)) if partitions is None else partitions)
        topic = OffsetFetchRequestTopics(self.group.topic, partition_indexes=asked)
        group = OffsetFetchRequestGroup(self.group.group_id, self.member_id or None, self.term, [topic])
        request = OffsetFetchRequest(groups=[group], require_stable=self.client.chance.random() < 0.5)
        began = trio.current_time()
        response = await self.client.ask(connected, ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request)
        (answered,) = response.groups
        self.check(answered.error_code)
        found = {}
        for each in answered.topics[0].partitions:
            self.check(each.error_code)
            history = self.group.offsets[each.partition_index]
            mark, offset, epoch = each.metadata or "", each.committed_offset, each.committed_leader_epoch
            history.on_fetched(offset, mark, began, trio.current_time())
            assert offset == NO_OFFSET or mark.endswith(f"@{epoch}"), f"{mark} was fetched with leader epoch {epoch}"
            found[each.partition_index] = BEGINNING if offset == NO_OFFSET else Position(offset, epoch)
        assert sorted(found) == asked, f"{self.client.name} got a response about {sorted(found)}"
        return found

    async def ask(self, connected: WireClient, api: ApiKey, version: int, request: object, **more: float) -> Any:
        return await self.client.ask(connected, api, version, request, **more)

    def check(self, code: int) -> None:
        if code in ELSEWHERE:
            raise RetryError(ErrorCode(code).name)
        if code in REFUSALS or (code == ErrorCode.GROUP_ID_NOT_FOUND and self.group.is_mixed):
            raise RefusedError(ErrorCode(code))
        assert code == ErrorCode.NONE, f"{self.client.name} does not expect {ErrorCode(code).name}"
