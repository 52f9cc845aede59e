"""Clients of a classic group for tests. Each keeps what its next request needs."""

from grouping import CALLER, Asked, GroupWorld
from msgspec import Struct, field

from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tailrace.protocol.messages.describe_groups import DescribedGroup
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "orders-readers"
SESSION_SECONDS = 10.0
REBALANCE_SECONDS = 60.0


def subscription(*topics: str) -> bytes:
    return (0).to_bytes(2) + encode_whole(ConsumerProtocolSubscription(list(topics)), 0)


def protocols(**metadata: bytes) -> dict[str, bytes]:
    return metadata


RANGE = protocols(range=subscription("orders"))


def error_of(asked: Asked) -> ErrorCode:
    """Returns NONE, the error in the response, or the refusal."""
    assert not asked.is_waiting, "it has not been answered yet"
    return asked.error.code if asked.error is not None else ErrorCode(asked.reply.error_code)


class Client(Struct):
    world: GroupWorld
    instance_id: str | None = None
    protocols: dict[str, bytes] = field(default_factory=lambda: RANGE)
    protocol_type: str = "consumer"
    version: int = 9
    group_id: str = GROUP
    session_seconds: float = SESSION_SECONDS
    rebalance_seconds: float = REBALANCE_SECONDS
    member_id: str = ""
    generation: int = -1
    joined: Asked | None = None
    synced: Asked | None = None

    def ask_to_join(self, reason: str | None = None) -> Asked:
        """Sends a JoinGroup with the latest member id."""
        if self.joined is not None and self.joined.reply is not None and not self.joined.reply.error_code:
            self.member_id = self.joined.reply.member_id
        request = JoinGroupRequest(
            self.group_id,
            round(self.session_seconds * 1000),
            round(self.rebalance_seconds * 1000),
            self.member_id,
            self.instance_id,
            self.protocol_type,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in self.protocols.items()],
            reason,
        )
        self.joined = self.world.ask(
            lambda coordinator, moment, asked: coordinator.classic.join(request, self.version, CALLER, asked, moment)
        )
        return self.joined

    def join(self, reason: str | None = None) -> Asked:
        """Joins, and joins again with the member id that it gets."""
        asked = self.ask_to_join(reason)
        if not asked.is_waiting and error_of(asked) == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = asked.reply.member_id
            asked = self.ask_to_join(reason)
        return asked

    @property
    def joined_reply(self) -> JoinGroupResponse:
        """Returns the response to its JoinGroup."""
        assert self.joined is not None and error_of(self.joined) == ErrorCode.NONE
        reply: JoinGroupResponse = self.joined.reply
        self.member_id, self.generation = reply.member_id, reply.generation_id
        return reply

    @property
    def leads(self) -> bool:
        reply = self.joined_reply
        return reply.leader == reply.member_id

    def sync(self, assignments: dict[str, bytes] | None = None) -> Asked:
        request = SyncGroupRequest(
            self.group_id,
            self.generation,
            self.member_id,
            self.instance_id,
            self.protocol_type,
            next(iter(self.protocols)),
            [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
        )
        self.synced = self.world.ask(
            lambda coordinator, moment, asked: coordinator.classic.sync(request, 5, CALLER, asked, moment)
        )
        return self.synced

    @property
    def assignment(self) -> bytes:
        assert self.synced is not None and error_of(self.synced) == ErrorCode.NONE
        reply: SyncGroupResponse = self.synced.reply
        return reply.assignment

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)
        return error_of(
            self.world.ask(
                lambda coordinator, moment, asked: coordinator.classic.heartbeat(request, 4, CALLER, asked, moment)
            )
        )

    def leave(self, reason: str | None = None) -> ErrorCode:
        reply = leave(self.world, MemberIdentity(self.member_id, self.instance_id, reason), group_id=self.group_id)
        return ErrorCode(reply.members[0].error_code)


def leave(world: GroupWorld, *members: MemberIdentity, group_id: str = GROUP) -> LeaveGroupResponse:
    request = LeaveGroupRequest(group_id, members=list(members))
    asked = world.ask(lambda coordinator, moment, asked: coordinator.classic.leave(request, 5, CALLER, asked, moment))
    assert error_of(asked) == ErrorCode.NONE
    reply: LeaveGroupResponse = asked.reply
    return reply


def describe(world: GroupWorld, group_id: str = GROUP, version: int = 6) -> DescribedGroup:
    return world.coordinator.classic.describe(group_id, version)


def group_of(world: GroupWorld, group_id: str = GROUP) -> ClassicGroup:
    group = world.coordinator.groups[group_id]
    assert isinstance(group, ClassicGroup)
    return group


def assign(clients: list[Client]) -> None:
    """Lets joined clients sync. The leader assigns to each member its own id."""
    for client in clients:
        assert client.joined_reply.generation_id == clients[0].joined_reply.generation_id
    leader = next(client for client in clients if client.leads)
    for client in clients:
        if client is not leader:
            client.sync()
    leader.sync({client.member_id: client.member_id.encode() for client in clients})
    for client in clients:
        assert client.assignment == client.member_id.encode()


def stable_group(world: GroupWorld, count: int, **fields: object) -> list[Client]:
    """Returns the members of a stable group, the leader first. The initial rebalance delay should be 0."""
    clients = [Client(world, **fields) for _ in range(count)]  # type: ignore[arg-type] # fields of a Client
    return settle(clients)


def settle(clients: list[Client]) -> list[Client]:
    """Lets all clients join until they have their assignments. Returns them, the leader first."""
    for client in clients:
        if client.joined is None or not client.joined.is_waiting:
            client.join()
    while any(client.joined is not None and client.joined.is_waiting for client in clients):
        late = next(client for client in clients if client.joined is not None and not client.joined.is_waiting)
        late.join()
    assign(clients)
    return sorted(clients, key=lambda client: not client.leads)
