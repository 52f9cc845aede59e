"""Members of classic groups, as requests that are encoded by hand in every version.

Each member has its own connection, because a response may take long. A field that the version does not have is None.
"""

import select
import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field
from raw import Connection, connect, frame, string

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS = (
    8,
    10,
    11,
    12,
    13,
    14,
    15,
)
METADATA, OFFSET_FETCH, DELETE_GROUPS, OFFSET_DELETE = 3, 9, 42, 47
CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69
_NEVER = 1 << 15
FLEXIBLE_FROM = {
    METADATA: 9,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 6,
    FIND_COORDINATOR: 3,
    JOIN_GROUP: 6,
    HEARTBEAT: 4,
    LEAVE_GROUP: 4,
    SYNC_GROUP: 4,
    DESCRIBE_GROUPS: 5,
    DELETE_GROUPS: 2,
    OFFSET_DELETE: _NEVER,
    CONSUMER_GROUP_HEARTBEAT: 0,
    CONSUMER_GROUP_DESCRIBE: 0,
}
NONE, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID = 22, 23, 24, 25
INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS = 26, 27
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 68, 69, 79, 81, 82
NOT_YET = (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
QUIET_SECONDS = 0.4
"""How long a test listens to a broker that is expected not to respond."""
COORDINATOR_SECONDS_MAX = 30
REBALANCE_SECONDS_MAX = 30


def _unsigned(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class Body:
    """Writes the fields of a request in the form that its version has."""

    def __init__(self, api_key: int, version: int) -> None:
        self.api_key, self.version = api_key, version
        self.flexible = version >= FLEXIBLE_FROM[api_key]
        self._parts: list[bytes] = []

    def numbers(self, layout: str, *values: int) -> "Body":
        self._parts.append(struct.pack(">" + layout, *values))
        return self

    def text(self, value: str | None) -> "Body":
        if not self.flexible:
            self._parts.append(string(value))
        elif value is None:
            self._parts.append(b"\x00")
        else:
            data = value.encode()
            self._parts.append(_unsigned(len(data) + 1) + data)
        return self

    def data(self, value: bytes) -> "Body":
        self._parts.append(_unsigned(len(value) + 1) if self.flexible else struct.pack(">i", len(value)))
        self._parts.append(value)
        return self

    def count(self, value: int) -> "Body":
        self._parts.append(_unsigned(value + 1) if self.flexible else struct.pack(">i", value))
        return self

    def end(self) -> "Body":
        """Ends a structure, or the whole request, with its tagged fields."""
        if self.flexible:
            self._parts.append(b"\x00")
        return self

    def framed(self, client: str) -> bytes:
        header = struct.pack(">hhi", self.api_key, self.version, 1) + string(client)
        return frame(header + (b"\x00" if self.flexible else b"") + b"".join(self._parts))


class ResponseReader:
    """Reads the fields of a response."""

    def __init__(self, api_key: int, version: int, body: bytes) -> None:
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM[api_key]
        self._body = body
        self._position = 0
        if self.flexible:
            self.end()

    def number(self, layout: str) -> Any:
        (value,) = struct.unpack_from(">" + layout, self._body, self._position)
        self._position += struct.calcsize(">" + layout)
        return value

    def text(self) -> str | None:
        data = self._sized("h")
        return None if data is None else data.decode()

    def data(self) -> bytes:
        return self._sized("i") or b""

    def count(self) -> int:
        return self._unsigned() - 1 if self.flexible else int(self.number("i"))

    def end(self) -> None:
        if self.flexible:
            assert self._unsigned() == 0, "the test does not expect tagged fields"

    def is_read(self) -> bool:
        return self._position == len(self._body)

    def _sized(self, layout: str) -> bytes | None:
        size = self._unsigned() - 1 if self.flexible else int(self.number(layout))
        if size < 0:
            return None
        self._position += size
        return self._body[self._position - size : self._position]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._body[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def subscription(*topics: str) -> bytes:
    """Returns a consumer's metadata for a protocol.

    Apache Kafka never responds to a consumer's JoinGroup with any other metadata.
    """
    texts = b"".join(string(topic) for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + texts + struct.pack(">i", -1)


ORDERS, PAYMENTS = subscription("orders"), subscription("payments")


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    error: int
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str
    skip_assignment: bool | None
    member_id: str
    members: list[JoinedMember]

    @property
    def leads(self) -> bool:
        return self.error == NONE and self.leader == self.member_id


class Synced(NamedTuple):
    error: int
    protocol_type: str | None
    protocol: str | None
    assignment: bytes


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


class Described(NamedTuple):
    error: int
    message: str | None
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: list[DescribedMember]
    operations: int | None


class Member(Struct):
    """The state of a group's client, and the connection that it uses."""

    connection: Connection
    group: str
    instance: str | None = None
    protocols: Sequence[tuple[str, bytes]] = (("range", ORDERS), ("sticky", PAYMENTS))
    protocol_type: str = "consumer"
    session_ms: int = 10_000
    rebalance_ms: int = 20_000
    client: str = "raw-member"
    member_id: str = ""
    generation: int = -1
    asked: list[tuple[int, int]] = field(default_factory=list)
    """API key and version of the requests whose responses have not been read."""

    # joining

    def ask_to_join(self, version: int = 9, reason: str | None = None) -> None:
        body = Body(JOIN_GROUP, version).text(self.group).numbers("i", self.session_ms)
        if version >= 1:
            body.numbers("i", self.rebalance_ms)
        body.text(self.member_id)
        if version >= 5:
            body.text(self.instance)
        body.text(self.protocol_type).count(len(self.protocols))
        for name, metadata in self.protocols:
            body.text(name).data(metadata).end()
        if version >= 8:
            body.text(reason)
        self._send(body.end())

    def joined(self) -> Joined:
        """Reads the response to JoinGroup, and adopts the member id and the generation."""
        answer = self._receive(JOIN_GROUP)
        version = answer.version
        if version >= 2:
            answer.number("i")
        error, generation = answer.number("h"), answer.number("i")
        protocol_type = answer.text() if version >= 7 else None
        protocol, leader = answer.text(), answer.text() or ""
        skip_assignment = answer.number("?") if version >= 9 else None
        member_id = answer.text() or ""
        members = []
        for _ in range(answer.count()):
            name, instance = answer.text() or "", answer.text() if version >= 5 else None
            members.append(JoinedMember(name, instance, answer.data()))
            answer.end()
        answer.end()
        assert answer.is_read()
        if error in (NONE, MEMBER_ID_REQUIRED):
            self.member_id = member_id
        if error == NONE:
            self.generation = generation
        return Joined(error, generation, protocol_type, protocol, leader, skip_assignment, member_id, members)

    def join(self, version: int = 9, reason: str | None = None) -> Joined:
        """Joins, with a second request if the first one only returned a member id.

        It is for members that get a response without any action of other members.
        """
        self.ask_to_join(version, reason)
        joined = self.joined()
        if joined.error == MEMBER_ID_REQUIRED:
            self.ask_to_join(version, reason)
            joined = self.joined()
        return joined

    def obtain_member_id(self, version: int = 9) -> None:
        """Obtains a member id, so that the next JoinGroup comes from a known member."""
        self.ask_to_join(version)
        assert self.joined().error == MEMBER_ID_REQUIRED

    # synchronizing

    def ask_to_sync(
        self, assignments: dict[str, bytes] | None = None, version: int = 5, generation: int | None = None, **names: Any
    ) -> None:
        body = Body(SYNC_GROUP, version).text(self.group)
        body.numbers("i", self.generation if generation is None else generation).text(self.member_id)
        if version >= 3:
            body.text(self.instance)
        if version >= 5:
            body.text(names.get("protocol_type", self.protocol_type)).text(names.get("protocol", self.protocols[0][0]))
        body.count(len(assignments or {}))
        for member_id, assignment in (assignments or {}).items():
            body.text(member_id).data(assignment).end()
        self._send(body.end())

    def synced(self) -> Synced:
        answer = self._receive(SYNC_GROUP)
        if answer.version >= 1:
            answer.number("i")
        error = answer.number("h")
        names = (answer.text(), answer.text()) if answer.version >= 5 else (None, None)
        synced = Synced(error, *names, answer.data())
        answer.end()
        assert answer.is_read()
        return synced

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5, **names: Any) -> Synced:
        self.ask_to_sync(assignments, version, **names)
        return self.synced()

    # heartbeats, commits, leaving

    def heartbeat(self, version: int = 4, generation: int | None = None) -> int:
        body = Body(HEARTBEAT, version).text(self.group)
        body.numbers("i", self.generation if generation is None else generation).text(self.member_id)
        if version >= 3:
            body.text(self.instance)
        self._send(body.end())
        answer = self._receive(HEARTBEAT)
        if version >= 1:
            answer.number("i")
        return int(answer.number("h"))

    def commit(self, topic: str, offset: int, version: int = 8, generation: int | None = None) -> int:
        """Commits one offset, and returns the error of its partition."""
        body = Body(OFFSET_COMMIT, version).text(self.group)
        body.numbers("i", self.generation if generation is None else generation).text(self.member_id)
        if version >= 7:
            body.text(self.instance)
        body.count(1).text(topic).count(1).numbers("iq", 0, offset)
        if version >= 6:
            body.numbers("i", -1)
        self._send(body.text(None).end().end().end())
        answer = self._receive(OFFSET_COMMIT)
        answer.number("i")
        assert answer.count() == 1 and answer.text() == topic and answer.count() == 1 and answer.number("i") == 0
        return int(answer.number("h"))

    def leave(self, version: int = 5, reason: str | None = None) -> int:
        """Leaves the group, and returns the error of this member."""
        error, members = self.leave_with([(self.member_id, self.instance)], version, reason)
        return members[0][2] if version >= 3 and members else error

    def leave_with(
        self, members: list[tuple[str, str | None]], version: int = 5, reason: str | None = None
    ) -> tuple[int, list[tuple[str, str | None, int]]]:
        """Removes the members; returns the error of the request, and the error of each member."""
        body = Body(LEAVE_GROUP, version).text(self.group)
        if version >= 3:
            body.count(len(members))
            for member_id, instance in members:
                body.text(member_id).text(instance)
                if version >= 5:
                    body.text(reason)
                body.end()
        else:
            body.text(members[0][0])
        self._send(body.end())
        answer = self._receive(LEAVE_GROUP)
        if version >= 1:
            answer.number("i")
        error = int(answer.number("h"))
        left = []
        if version >= 3:
            for _ in range(answer.count()):
                left.append((answer.text() or "", answer.text(), int(answer.number("h"))))
                answer.end()
        return error, left

    # administration

    def describe(self, version: int = 6, *, group: str | None = None, operations: bool = False) -> Described:
        body = Body(DESCRIBE_GROUPS, version).count(1).text(group or self.group)
        if version >= 3:
            body.numbers("?", operations)
        self._send(body.end())
        answer = self._receive(DESCRIBE_GROUPS)
        if version >= 1:
            answer.number("i")
        assert answer.count() == 1
        error = int(answer.number("h"))
        message = answer.text() if version >= 6 else None
        name, state, protocol_type, protocol = (answer.text() or "" for _ in range(4))
        members = []
        for _ in range(answer.count()):
            member_id, instance = answer.text() or "", answer.text() if version >= 4 else None
            members.append(
                DescribedMember(
                    member_id, instance, answer.text() or "", answer.text() or "", answer.data(), answer.data()
                )
            )
            answer.end()
        allowed = answer.number("i") if version >= 3 else None
        return Described(error, message, name, state, protocol_type, protocol, members, allowed)

    def delete(self, group: str | None = None) -> int:
        """Deletes the group, even if the group has members, and returns its error."""
        self._send(Body(DELETE_GROUPS, 1).count(1).text(group or self.group))
        answer = self._receive(DELETE_GROUPS)
        answer.number("i")
        assert answer.count() == 1 and answer.text() == (group or self.group)
        return int(answer.number("h"))

    def is_waiting(self, seconds: float = QUIET_SECONDS) -> bool:
        """Whether the broker sends nothing for this long."""
        return not select.select([self.connection.socket], [], [], seconds)[0]

    def _send(self, body: Body) -> None:
        self.asked.append((body.api_key, body.version))
        self.connection.send(body.framed(self.client))

    def _receive(self, api_key: int) -> ResponseReader:
        asked, version = self.asked.pop(0)
        assert asked == api_key, "responses are read in the order of requests"
        return ResponseReader(api_key, version, self.connection.receive()[1])


def await_coordinator(bootstrap: str, group: str) -> None:
    """Waits until a broker coordinates the group: for its first group, a new broker creates the internal topic."""
    deadline = time.monotonic() + COORDINATOR_SECONDS_MAX
    with connect(bootstrap) as connection:
        probe = Member(connection, group, member_id="nobody")
        while True:
            connection.call(FIND_COORDINATOR, 0, string(group))
            if probe.heartbeat(generation=0) == UNKNOWN_MEMBER_ID:
                return
            assert time.monotonic() < deadline, "no broker coordinates the group"
            time.sleep(0.1)


def await_rebalance(*members: Member) -> None:
    """Sends heartbeats until every member has been told that the group rebalances."""
    deadline = time.monotonic() + REBALANCE_SECONDS_MAX
    for each in members:
        while (error := each.heartbeat()) != REBALANCE_IN_PROGRESS:
            assert error == NONE and time.monotonic() < deadline, f"error {error}"
            time.sleep(0.02)
