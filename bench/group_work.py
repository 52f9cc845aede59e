"""Work of consumer groups: how soon a new member reads, how fast it commits, and how long a large group rebalances.

The first of these includes the work of the client, as users experience it. The others send bare requests if a client
would be the bottleneck, so that they measure the broker.
"""

import itertools
import selectors
import struct
import time
import uuid
from collections.abc import Callable, Iterable
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from measured import SECONDS_MAX, Measured
from raw import Connection, connect, request, string
from raw_groups import (
    FIND_COORDINATOR,
    HEARTBEAT,
    ILLEGAL_GENERATION,
    NONE,
    OFFSET_COMMIT,
    REBALANCE_IN_PROGRESS,
    Body,
    Member,
    await_coordinator,
)

SESSION_MS = 30_000
METADATA = struct.pack(">hih9sih", 1, 1, 9, b"the-topic", -1, 0)
"""Metadata of about the same size as that of a member with one topic."""


def new_group() -> str:
    return f"bench-{uuid.uuid4().hex[:12]}"


# # from the start of a consumer to its first record


def first_record(bootstrap: str, topic: str, rounds: int, read_one: Callable[[str, str], float]) -> Measured:
    """Measures each round in a new group. The first round is a warm-up, in which the broker may create its internal
    topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for _ in range(10):
        producer.produce(topic, b"x" * 100)
    if producer.flush(SECONDS_MAX):
        raise SystemExit("the records are not delivered")
    await_coordinator(bootstrap, new_group())
    samples = [read_one(bootstrap, topic) for _ in range(rounds + 1)][1:]
    return {"p50_ms": median(samples) * 1000, "max_ms": max(samples) * 1000}


def read_with_librdkafka(bootstrap: str, topic: str) -> float:
    started = time.perf_counter()
    settings = {"bootstrap.servers": bootstrap, "group.id": new_group(), "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"log_level": 2})
    consumer.subscribe([topic])
    deadline = time.monotonic() + SECONDS_MAX
    while (message := consumer.poll(1)) is None or message.error() is not None:
        if time.monotonic() > deadline:
            raise SystemExit("no record came")
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def read_with_kafka_python(bootstrap: str, topic: str) -> float:
    started = time.perf_counter()
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap.split(","), group_id=new_group(), auto_offset_reset="earliest"
    )
    deadline = time.monotonic() + SECONDS_MAX
    while not consumer.poll(timeout_ms=1000):
        if time.monotonic() > deadline:
            raise SystemExit("no record came")
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


# # commits


def joined_member(bootstrap: str, topic: str, group: str) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings | {"log_level": 2})
    assigned: list[TopicPartition] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + SECONDS_MAX
    while not assigned:
        consumer.poll(0.1)
        if time.monotonic() > deadline:
            raise SystemExit("the member never got a partition")
    return consumer


def coordinator_failover(
    bootstrap: str, topic: str, seconds_after_the_end_of: Callable[[int, Callable[[], None]], Measured]
) -> Measured:
    """Kills the coordinator, and waits for the response to the first commit after that."""
    group = new_group()
    member = joined_member(bootstrap, topic, group)
    offsets = itertools.count()

    def commit_one() -> None:
        member.commit(offsets=[TopicPartition(topic, 0, next(offsets))], asynchronous=False)

    for _ in range(200):
        commit_one()
    with connect(bootstrap) as connection:
        error, coordinator = struct.unpack_from(">hi", connection.call(FIND_COORDINATOR, 0, string(group)))
    if error != NONE:
        raise SystemExit(f"no node knows the coordinator of the group: error {error}")
    measured = seconds_after_the_end_of(coordinator, commit_one)
    member.close()
    return measured


def commit_one_by_one(bootstrap: str, topic: str, count: int) -> Measured:
    """Commits with a member that waits for each commit."""
    await_coordinator(bootstrap, new_group())
    consumer = joined_member(bootstrap, topic, new_group())
    for offset in range(100):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    started = time.perf_counter()
    for offset in range(count):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    seconds = time.perf_counter() - started
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    consumer.close()
    if committed.offset != count - 1:
        raise SystemExit(f"offset {count - 1} was committed, but {committed.offset} is stored")
    return {"per_second": count / seconds}


def commit_pipelined(bootstrap: str, topic: str, count: int, window: int) -> Measured:
    """Commits with a member that has `window` commits in flight, through one bare socket."""
    group = new_group()
    await_coordinator(bootstrap, group)
    member = Member(Connection(bootstrap), group, session_ms=SESSION_MS, protocols=[("range", METADATA)])
    member.connection.socket.settimeout(SECONDS_MAX)
    member.join()
    member.sync({member.member_id: b""})
    if member.commit(topic, 0) != NONE:
        raise SystemExit("a commit was refused")
    requests = [commit_request(member, topic, offset) for offset in range(count)]
    member.connection.send(requests[0])
    answer_bytes = 4 + 4 + len(member.connection.receive()[1])
    windows = [b"".join(requests[first : first + window]) for first in range(0, count, window)]
    started = time.perf_counter()
    member.connection.send(windows[0])
    for some in windows[1:]:
        member.connection.send(some)
        member.connection.receive_exactly(answer_bytes * window)
    answers = member.connection.receive_exactly(answer_bytes * (count - window * (len(windows) - 1)))
    seconds = time.perf_counter() - started
    (error,) = struct.unpack_from(">h", answers, len(answers) - 5)  # three empty sets of tagged fields follow
    if error != NONE:
        raise SystemExit("a commit was refused")
    member.leave()
    member.connection.socket.close()
    return {"per_second": count / seconds, "requests": float(count)}


def commit_request(member: Member, topic: str, offset: int) -> bytes:
    body = Body(OFFSET_COMMIT, 8).text(member.group).numbers("i", member.generation).text(member.member_id)
    body.text(None).count(1).text(topic).count(1).numbers("iq", 0, offset).numbers("i", -1).text(None)
    return body.end().end().end().framed(member.client)


# # rebalances


class Crowd:
    """Members that do at once what clients do: each that learns of a rebalance rejoins, and the leader assigns."""

    def __init__(self, bootstrap: str) -> None:
        self.group = new_group()
        self._bootstrap = bootstrap
        self._selector = selectors.DefaultSelector()
        self._waits_for: dict[int, Callable[[], None]] = {}
        """The handler of the next response, by file descriptor."""
        self._assigned: dict[str, tuple[Member, int]] = {}
        """All members with an assignment, by id, and its generation."""

    def add(self) -> Member:
        """Adds a member that has an id, and has not joined yet."""
        member = Member(Connection(self._bootstrap), self.group, session_ms=SESSION_MS, protocols=[("range", METADATA)])
        member.connection.socket.settimeout(SECONDS_MAX)
        self._selector.register(member.connection.socket, selectors.EVENT_READ)
        member.get_id()
        return member

    def remove(self, member: Member) -> None:
        member.leave()
        self._selector.unregister(member.connection.socket)
        member.connection.socket.close()
        del self._assigned[member.member_id]

    def settle(self, newcomers: Iterable[Member]) -> None:
        """Joins with the newcomers, tells the others by a heartbeat, and returns when all have one generation's
        assignment."""
        for member in newcomers:
            self._join(member)
        for member, _ in self._assigned.values():
            self._heartbeat(member)
        while self._waits_for:
            ready = self._selector.select(SECONDS_MAX)
            if not ready:
                raise SystemExit("the group did not become stable")
            for key, _ in ready:
                self._waits_for.pop(key.fd)()
            if not self._waits_for:
                newest = max(generation for _, generation in self._assigned.values())
                for member, generation in self._assigned.values():
                    if generation < newest:
                        self._heartbeat(member)

    def close(self) -> None:
        for member, _ in self._assigned.values():
            member.connection.socket.close()

    def _heartbeat(self, member: Member) -> None:
        names = string(self.group) + struct.pack(">i", member.generation) + string(member.member_id)
        member.connection.send(request(HEARTBEAT, 0, names))
        self._wait(member, self._on_heartbeat)

    def _on_heartbeat(self, member: Member) -> None:
        (error,) = struct.unpack(">h", member.connection.receive()[1])
        if error in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION):
            self._join(member)
        elif error == NONE:
            self._heartbeat(member)
        else:
            raise SystemExit(f"a heartbeat was refused with error {error}")

    def _join(self, member: Member) -> None:
        member.ask_to_join()
        self._wait(member, self._on_joined)

    def _wait(self, member: Member, on_answer: Callable[[Member], None]) -> None:
        self._waits_for[member.connection.socket.fileno()] = lambda: on_answer(member)

    def _on_joined(self, member: Member) -> None:
        joined = member.joined()
        if joined.error != NONE:
            raise SystemExit(f"a member was refused with error {joined.error}")
        assignments = {each.member_id: each.metadata for each in joined.members} if joined.leads else None
        member.ask_to_sync(assignments)
        self._wait(member, self._on_synced)

    def _on_synced(self, member: Member) -> None:
        synced = member.synced()
        if synced.error == REBALANCE_IN_PROGRESS:
            self._join(member)
        elif synced.error != NONE or synced.assignment != METADATA:
            raise SystemExit(f"a member got no assignment: error {synced.error}")
        else:
            self._assigned[member.member_id] = member, member.generation


def rebalance(bootstrap: str, topic: str, members: int, rounds: int) -> Measured:
    """Measures how long a group of `members` takes to assign partitions after another member has joined.

    Real members learn of a rebalance with their next heartbeat, after seconds; these members ask at once.
    """
    crowd = Crowd(bootstrap)
    await_coordinator(bootstrap, crowd.group)
    first = crowd.add()
    crowd.settle([first])
    crowd.settle([crowd.add() for _ in range(members - 1)])
    samples = []
    for _ in range(rounds):
        newcomer = crowd.add()
        started = time.perf_counter()
        crowd.settle([newcomer])
        samples.append(time.perf_counter() - started)
        crowd.remove(newcomer)
        crowd.settle([])
    crowd.close()
    return {"p50_ms": median(samples) * 1000, "max_ms": max(samples) * 1000}
