"""Members of KIP-848 groups, as requests that are encoded by hand (see `raw_groups`)."""

import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field
from raw import Connection
from raw_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT, NONE, Body, ResponseReader

INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35
FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, STALE_MEMBER_EPOCH = 110, 111, 112, 113
INVALID_REGULAR_EXPRESSION = 128
LEAVE_EPOCH, STATIC_LEAVE_EPOCH = -1, -2
SECONDS_MAX = 20
Partition = tuple[bytes, int]
"""The id of a topic and the number of a partition."""


class HeartbeatResponse(NamedTuple):
    """The response to a heartbeat."""

    error: int
    message: str | None
    member_id: str | None
    epoch: int
    interval_ms: int
    assignment: frozenset[Partition] | None


class ConsumerMember(Struct):
    """The state of a client that uses the new protocol. It releases partitions as soon as it is told to."""

    connection: Connection
    group: str
    member_id: str
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    instance: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 20_000
    client: str = "raw-member"
    epoch: int = 0
    owned: frozenset[Partition] = field(default_factory=frozenset)

    def join(self, version: int = 1) -> HeartbeatResponse:
        self.epoch, self.owned = 0, frozenset()
        return self.heartbeat(version, full=True)

    def heartbeat(self, version: int = 1, *, full: bool = False) -> HeartbeatResponse:
        """Sends a heartbeat with the member's state, and adopts the response."""
        fields = {"rebalance_ms": self.rebalance_ms, "topics": self.topics, "pattern": self.pattern}
        response = self.ask(version, owned=self.owned, assignor=self.assignor, **(fields if full else {}))
        assert response.error == NONE, response
        self.epoch, self.member_id = response.epoch, response.member_id or ""
        if response.assignment is not None:
            self.owned = response.assignment
        return response

    def leave(self, epoch: int = LEAVE_EPOCH) -> None:
        response = self.ask(epoch=epoch)
        assert (response.error, response.member_id, response.epoch) == (NONE, self.member_id, epoch)
        self.owned = frozenset()

    def ask(
        self,
        version: int = 1,
        *,
        group: str | None = None,
        member_id: str | None = None,
        epoch: int | None = None,
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        topics: tuple[str, ...] | None = None,
        pattern: str | None = None,
        assignor: str | None = None,
        owned: frozenset[Partition] | None = None,
    ) -> HeartbeatResponse:
        """Sends a heartbeat with these fields, and returns the response without adopting it."""
        body = Body(CONSUMER_GROUP_HEARTBEAT, version)
        body.text(self.group if group is None else group)
        body.text(self.member_id if member_id is None else member_id)
        body.numbers("i", self.epoch if epoch is None else epoch)
        body.text(self.instance if instance is None else instance).text(rack).numbers("i", rebalance_ms)
        body.count(-1 if topics is None else len(topics))
        for topic in topics or ():
            body.text(topic)
        if version >= 1:
            body.text(pattern)
        body.text(assignor)
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, number in sorted(owned or ()):
            by_topic.setdefault(topic_id, []).append(number)
        body.count(-1 if owned is None else len(by_topic))
        for topic_id, numbers in by_topic.items():
            body.numbers("16B", *topic_id).count(len(numbers)).numbers(f"{len(numbers)}i", *numbers).end()
        self.connection.send(body.end().framed(self.client))
        answer = ResponseReader(CONSUMER_GROUP_HEARTBEAT, version, self.connection.receive()[1])
        answer.number("i")
        response = HeartbeatResponse(
            answer.number("h"),
            answer.text(),
            answer.text(),
            answer.number("i"),
            answer.number("i"),
            _assignment(answer),
        )
        answer.end()
        assert answer.is_read()
        return response

    def ask_to_join(self, version: int = 1, **changed: object) -> HeartbeatResponse:
        """Asks to join as `join` does, except for the given fields, and does not adopt the response."""
        fields = {
            "epoch": 0,
            "rebalance_ms": self.rebalance_ms,
            "topics": self.topics,
            "pattern": self.pattern,
            "owned": frozenset(),
        }
        return self.ask(version, **(fields | changed))  # type: ignore[arg-type] # a test knows what it says

    def heartbeat_until(self, condition: Callable[[], object], *others: "ConsumerMember") -> None:
        """Sends heartbeats of all members until the condition holds, because a broker may assign only once a second."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            for each in (self, *others):
                each.heartbeat()
            if condition():
                return
            assert time.monotonic() < deadline, "the group did not reach the expected state in time"
            time.sleep(0.1)

    def describe(self, version: int = 1, *, group: str | None = None, operations: bool = False) -> "Described":
        body = Body(CONSUMER_GROUP_DESCRIBE, version).count(1).text(group or self.group)
        self.connection.send(body.numbers("?", operations).end().framed(self.client))
        answer = ResponseReader(CONSUMER_GROUP_DESCRIBE, version, self.connection.receive()[1])
        answer.number("i")
        assert answer.count() == 1
        error, message, name, state = answer.number("h"), answer.text(), answer.text(), answer.text()
        epoch, target_epoch, assignor = answer.number("i"), answer.number("i"), answer.text()
        members = sorted(_described_member(answer) for _ in range(answer.count()))
        described = Described(error, message, name, state, epoch, target_epoch, assignor, members, answer.number("i"))
        answer.end()
        answer.end()
        assert answer.is_read()
        return described

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, number in self.owned)


class DescribedMember(NamedTuple):
    member_id: str | None
    instance: str | None
    rack: str | None
    epoch: int
    client_id: str | None
    host: str | None
    topics: list[str | None]
    pattern: str | None
    assignment: frozenset[Partition] | None
    target: frozenset[Partition] | None
    uses_new_protocol: bool | None


class Described(NamedTuple):
    error: int
    message: str | None
    group: str | None
    state: str | None
    epoch: int
    target_epoch: int
    assignor: str | None
    members: list[DescribedMember]
    operations: int


def _assignment(answer: ResponseReader) -> frozenset[Partition] | None:
    """Reads an assignment, or returns None if the response has none."""
    if answer.number("b") < 0:
        return None
    partitions = _partitions(answer, named=False)
    answer.end()
    return partitions


def _partitions(answer: ResponseReader, *, named: bool) -> frozenset[Partition]:
    partitions = set()
    for _ in range(answer.count()):
        topic_id = bytes(answer.number("B") for _ in range(16))
        if named:
            answer.text()
        partitions |= {(topic_id, answer.number("i")) for _ in range(answer.count())}
        answer.end()
    return frozenset(partitions)


def _described_member(answer: ResponseReader) -> DescribedMember:
    member_id, instance, rack = answer.text(), answer.text(), answer.text()
    epoch, client_id, host = answer.number("i"), answer.text(), answer.text()
    topics, pattern = [answer.text() for _ in range(answer.count())], answer.text()
    both = []
    for _ in range(2):
        both.append(_partitions(answer, named=True))
        answer.end()
    uses_new_protocol = answer.number("b") == 1 if answer.version >= 1 else None
    answer.end()
    return DescribedMember(member_id, instance, rack, epoch, client_id, host, topics, pattern, *both, uses_new_protocol)
