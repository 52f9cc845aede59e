"""A member of a classic consumer group: joins, stays alive, commits what was processed, and leaves.

The group sees a member of the stock protocol, so members of other clients share the work with it. A member that learns
of a rebalance commits, and joins again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .group_assignment import (
    ASSIGNOR,
    assigned_partitions,
    assignment_data,
    range_assignment,
    subscribed_topics,
    subscription_data,
)
from .group_client import NAMED_COMMITS_MAX, committed_topics
from .log_facts import Partition
from .server_connection import RefusedError, UnreachableError, refusal, unless_refused
from .spu_client import PASSING, PATIENCE_SECONDS, PAUSE_SECONDS_MIN, SpuClient

SESSION_MS = 10_000
"""How long the coordinator waits for a heartbeat before it gives the partitions to others."""
HEARTBEAT_SECONDS = 2.0
REBALANCE_MS = 60_000
"""How long the other members wait for this one, which may have to wait for the reader of its output."""
JOIN_SECONDS_MAX = 300.0
"""How much longer than usual a response to JoinGroup may take: it waits for the slowest member."""

_JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_LOST_MEMBERSHIP = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})

PartitionsOf = Callable[[Sequence[str]], Awaitable[Mapping[str, Sequence[Partition]]]]
"""Returns the partitions of topics; the member that leads the group asks for them."""


class GroupMember:
    """One member. Its requests go over connections of their own, so that heartbeats wait for no fetch."""

    def __init__(self, spus: SpuClient, group_id: str, partitions_of: PartitionsOf) -> None:
        self._spus = spus
        self._group_id = group_id
        self._partitions_of = partitions_of
        self._turn = trio.Lock()
        """Held during a request: a connection carries one at a time."""
        self._member_id = ""
        self._generation = -1
        self.must_rejoin = False
        """Whether the group divides its partitions anew, or has removed this member."""
        self.was_removed = False
        """Whether the group has given the partitions to others before this member said that it was ready.

        The owner of the member resets it."""

    async def join(self, topics: Sequence[str]) -> list[Partition]:
        """Joins the group, or joins it again, and returns the partitions of this member. Raises RefusedError."""
        while True:
            joined = await self._joined(topics)
            self._member_id, self._generation = joined.member_id, joined.generation_id
            self.must_rejoin = False
            response = await self._ask_and_wait(
                SyncGroupRequest(
                    self._group_id,
                    self._generation,
                    self._member_id,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocol_name=ASSIGNOR,
                    assignments=await self._assignments(joined),
                )
            )
            refused = refusal(response)
            if refused is None:
                return assigned_partitions(response.assignment)
            if refused.code not in _JOIN_AGAIN:
                raise refused
            self._note(refused)

    async def _joined(self, topics: Sequence[str]) -> JoinGroupResponse:
        protocols = [JoinGroupRequestProtocol(ASSIGNOR, subscription_data(topics))]
        while True:
            response: JoinGroupResponse = await self._ask_and_wait(
                JoinGroupRequest(
                    self._group_id,
                    SESSION_MS,
                    REBALANCE_MS,
                    self._member_id,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocols=protocols,
                )
            )
            refused = refusal(response)
            if refused is None:
                return response
            if refused.code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            elif refused.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                raise RefusedError(
                    f"the members of group {self._group_id} do not use the assignor {ASSIGNOR}", refused.code
                )
            elif refused.code in _JOIN_AGAIN:
                self._note(refused)
            else:
                raise refused

    async def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if joined.leader != joined.member_id:
            return []
        topics_of = {each.member_id: subscribed_topics(each.metadata) for each in joined.members}
        partitions_of = await self._partitions_of(sorted({topic for topics in topics_of.values() for topic in topics}))
        return [
            SyncGroupRequestAssignment(member, assignment_data(partitions))
            for member, partitions in range_assignment(topics_of, partitions_of).items()
        ]

    async def stay_alive(self) -> None:
        """Sends heartbeats for ever, and notes when the group wants the member to join again.

        Heartbeats go on while the group waits for the member, which may have to wait for the reader of its output.
        """
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            if not self._member_id or self.was_removed or self._turn.locked():
                continue
            try:
                request = HeartbeatRequest(self._group_id, self._generation, self._member_id)
                refused = refusal(await self._ask(request))
            except (UnreachableError, RefusedError):
                continue  # the next request of the member reports it
            if refused is not None:
                self._note(refused)

    async def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """Commits the next offset of each partition; returns False if the group refused, because it moved on.

        Raises RefusedError and UnreachableError.
        """
        request = OffsetCommitRequest(
            self._group_id, self._generation, self._member_id, topics=committed_topics(offsets)
        )
        response = await self._ask(request)
        for refused in (refusal(each) for topic in response.topics for each in topic.partitions):
            if refused is None:
                continue
            if refused.code not in _JOIN_AGAIN:
                raise refused
            self._note(refused)
            return False
        return True

    async def leave(self) -> None:
        """Leaves the group, so that others get the partitions at once."""
        if self._member_id:
            identity = MemberIdentity(self._member_id)
            await self._ask(LeaveGroupRequest(self._group_id, self._member_id, [identity]))
            self._member_id = ""

    def _note(self, refused: RefusedError) -> None:
        self.must_rejoin = True
        if refused.code in _LOST_MEMBERSHIP:
            self.was_removed = True
        if refused.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""

    async def _ask(self, request: Any) -> Any:
        """Asks the coordinator, and looks for another one while it moves or loads its groups."""

        async def ask(spu_id: int, group_ids: Sequence[str]) -> Mapping[str, Any]:
            response = await self._spus.ask(spu_id, request, NAMED_COMMITS_MAX)
            return dict.fromkeys(group_ids, _passing_refusal(response) or response)

        async with self._turn:
            answers = await self._spus.ask_each([self._group_id], self._spus.coordinators, ask)
        return unless_refused(answers[self._group_id])

    async def _ask_and_wait(self, request: Any) -> Any:
        """Asks the coordinator, which responds when all members have asked the same."""
        patient_until = trio.current_time() + PATIENCE_SECONDS
        while True:
            async with self._turn:
                coordinator = await self._coordinator()
                try:
                    response = await self._spus.ask(coordinator, request, None, JOIN_SECONDS_MAX)
                except UnreachableError:
                    if trio.current_time() > patient_until:
                        raise
                else:
                    refused = _passing_refusal(response)
                    if refused is None:
                        return response
                    if trio.current_time() > patient_until:
                        raise refused
            await trio.sleep(PAUSE_SECONDS_MIN)

    async def _coordinator(self) -> int:
        async def find(_: int, group_ids: Sequence[str]) -> Mapping[str, int | RefusedError]:
            return await self._spus.coordinators(group_ids)

        answers = await self._spus.ask_each([self._group_id], _anywhere, find)
        return unless_refused(answers[self._group_id])


async def _anywhere(group_ids: Sequence[str]) -> dict[str, int | RefusedError]:
    """Names no particular SPU: `SpuClient.coordinators` asks any that responds."""
    return dict.fromkeys(group_ids, -1)


def _passing_refusal(response: Any) -> RefusedError | None:
    """Returns the transient error of a response, or of a part of it; None if there is none."""
    parts = (
        [response] if hasattr(response, "error_code") else [each for one in response.topics for each in one.partitions]
    )
    return next((each for each in map(refusal, parts) if each is not None and each.code in PASSING), None)
