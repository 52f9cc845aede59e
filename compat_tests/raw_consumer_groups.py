"""Members of KIP-848 groups at the level of requests, encoded by hand like `raw_groups`."""

import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field
from raw import Connection
from raw_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT, NONE, Answer, Body

INVALID_REQUEST, UNSUPPORTED_VERSION = 42, 35
FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, STALE_MEMBER_EPOCH = 110, 111, 112, 113
INVALID_REGULAR_EXPRESSION = 128
LEAVES, LEAVES_FOR_NOW = -1, -2
SECONDS_MAX = 20
Partition = tuple[bytes, int]
"""Topic id and number."""


class Beaten(NamedTuple):
    """What came of a heartbeat."""

    error: int
    message: str | None
    member_id: str | None
    epoch: int
    interval_ms: int
    assignment: frozenset[Partition] | None


class ConsumerMember(Struct):
    """What a client of the new protocol knows. It gives up at once what it is told to."""

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

    def join(self, version: int = 1) -> Beaten:
        self.epoch, self.owned = 0, frozenset()
        return self.beat(version, says_everything=True)

    def beat(self, version: int = 1, *, says_everything: bool = False) -> Beaten:
        """Says what it has, and does what it is told."""
        fields = {"rebalance_ms": self.rebalance_ms, "topics": self.topics, "pattern": self.pattern}
        beaten = self.ask(version, owned=self.owned, assignor=self.assignor, **(fields if says_everything else {}))
        assert beaten.error == NONE, beaten
        self.epoch, self.member_id = beaten.epoch, beaten.member_id or ""
        if beaten.assignment is not None:
            self.owned = beaten.assignment
        return beaten

    def leave(self, epoch: int = LEAVES) -> None:
        beaten = self.ask(epoch=epoch)
        assert (beaten.error, beaten.member_id, beaten.epoch) == (NONE, self.member_id, epoch)
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
    ) -> Beaten:
        """A heartbeat that says this, and nothing that comes of it."""
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
        answer = Answer(CONSUMER_GROUP_HEARTBEAT, version, self.connection.receive()[1])
        answer.number("i")
        beaten = Beaten(
            answer.number("h"),
            answer.text(),
            answer.text(),
            answer.number("i"),
            answer.number("i"),
            _assignment(answer),
        )
        answer.end()
        assert answer.is_read()
        return beaten

    def ask_to_join(self, version: int = 1, **said: object) -> Beaten:
        """As `join` does, but for what is said otherwise."""
        fields = {
            "epoch": 0,
            "rebalance_ms": self.rebalance_ms,
            "topics": self.topics,
            "pattern": self.pattern,
            "owned": frozenset(),
        }
        return self.ask(version, **(fields | said))  # type: ignore[arg-type] # a test knows what it says

    def beat_until(self, is_there: Callable[[], object], *others: "ConsumerMember") -> None:
        """All of them, as often as it takes: a broker may take a second before it assigns again."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            for each in (self, *others):
                each.beat()
            if is_there():
                return
            assert time.monotonic() < deadline, "the group does not come to rest"
            time.sleep(0.1)

    def describe(self, version: int = 1, *, group: str | None = None, operations: bool = False) -> "Described":
        body = Body(CONSUMER_GROUP_DESCRIBE, version).count(1).text(group or self.group)
        self.connection.send(body.numbers("?", operations).end().framed(self.client))
        answer = Answer(CONSUMER_GROUP_DESCRIBE, version, self.connection.receive()[1])
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
    speaks_new_protocol: bool | None


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


def _assignment(answer: Answer) -> frozenset[Partition] | None:
    """It may be missing as a whole."""
    if answer.number("b") < 0:
        return None
    partitions = _partitions(answer, named=False)
    answer.end()
    return partitions


def _partitions(answer: Answer, *, named: bool) -> frozenset[Partition]:
    partitions = set()
    for _ in range(answer.count()):
        topic_id = bytes(answer.number("B") for _ in range(16))
        if named:
            answer.text()
        partitions |= {(topic_id, answer.number("i")) for _ in range(answer.count())}
        answer.end()
    return frozenset(partitions)


def _described_member(answer: Answer) -> DescribedMember:
    member_id, instance, rack = answer.text(), answer.text(), answer.text()
    epoch, client_id, host = answer.number("i"), answer.text(), answer.text()
    topics, pattern = [answer.text() for _ in range(answer.count())], answer.text()
    both = []
    for _ in range(2):
        both.append(_partitions(answer, named=True))
        answer.end()
    speaks_new_protocol = answer.number("b") == 1 if answer.version >= 1 else None
    answer.end()
    return DescribedMember(
        member_id, instance, rack, epoch, client_id, host, topics, pattern, *both, speaks_new_protocol
    )
