"""A coordinator without an SPU: its log is a list, and tests let time pass."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.coordinator_records import GroupRecord, decode_record, encode_record
from tailrace.broker.groups.common.group import Caller, GroupKind
from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.group_records.group_metadata import GroupMetadataKey
from tailrace.protocol.ids import Epoch, SpuId, TopicId

CALLER = Caller("a-client", "/192.0.2.1")
Call = Callable[[Coordinator, Moment, "Asked"], None]


class Asked(Struct, eq=False):
    """A waiter that keeps its response or refusal, and checks that it gets exactly one."""

    reply: Any = None
    error: KafkaError | None = None
    answers: int = 0

    def respond(self, response: Any) -> None:
        self.reply = response
        self._on_answer()

    def refuse(self, error: KafkaError) -> None:
        self.error = error
        self._on_answer()

    def _on_answer(self) -> None:
        self.answers += 1
        assert self.answers == 1, "each request gets one response"

    @property
    def is_waiting(self) -> bool:
        return not self.answers


@dataclass
class GroupWorld:
    settings: GroupSettings = field(default_factory=GroupSettings)
    cluster: Cluster = field(default_factory=Cluster)
    log: list[GroupRecord] = field(default_factory=list)
    """The appended records, which the next coordinator loads."""
    now: float = 100.0
    now_ms: int = 1_700_000_000_000
    asked: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = count(1)
        self.coordinator = self._new()

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.now_ms)

    # called by tests

    def ask(self, call: Call) -> Asked:
        """Calls `call` with the coordinator, the time, and a waiter, which is returned."""
        asked = Asked()
        self.asked.append(asked)
        try:
            call(self.coordinator, self.moment, asked)
        except KafkaError as error:
            asked.refuse(error)
        self._carry_out()
        return asked

    def pass_time(self, seconds: float) -> None:
        """Lets time pass, and calls the coordinator at each deadline."""
        end = self.now + seconds
        while self.coordinator.deadline <= end:
            self._advance_to(max(self.coordinator.deadline, self.now))
            self.take_a_turn()
        self._advance_to(end)

    def take_a_turn(self) -> None:
        """Calls the coordinator once, as if its deadline had come."""
        self.coordinator.on_deadline(self.moment)
        self._carry_out()

    def restart(self, records: int | None = None) -> None:
        """Starts a new coordinator with the log, or with its first `records` records. Waiters are refused."""
        for waiter in self.coordinator.waiters():
            waiter.refuse(KafkaError(ErrorCode.NOT_COORDINATOR, "not the coordinator"))
        if records is not None:
            del self.log[records:]
        self.coordinator = self._new()
        for record in self.log:
            decoded = decode_record(*encode_record(record))
            assert decoded is not None
            self.coordinator.replay(decoded)
        self.coordinator.on_loaded(self.moment)
        self._carry_out()

    def compact(self) -> None:
        """Keeps only the last record of each key."""
        last = {encode_record(record)[0]: place for place, record in enumerate(self.log)}
        self.log = [record for place, record in enumerate(self.log) if last[encode_record(record)[0]] == place]

    def put_topic(self, name: str, partitions: int, topic_id: int | None = None) -> TopicSpec:
        """Creates the topic, or replaces one with this name."""
        number = topic_id or 1000 + len(self.cluster.topics)
        found: TopicId = UUID(int=number)
        before = self.cluster.topics.get(name)
        if before is not None and topic_id is None:
            found = before.id
        specs = tuple(
            PartitionSpec(found, name, each, SpuId(1), Epoch(0), (SpuId(1),), (SpuId(1),)) for each in range(partitions)
        )
        topic = TopicSpec(found, name, {}, specs)
        self.cluster.put_topic(topic)
        return topic

    def use(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)

    # helpers

    def _new(self) -> Coordinator:
        new_id = lambda: str(UUID(int=next(self._ids)))  # noqa: E731
        return Coordinator(lambda group_id: self.settings, self.cluster, new_id, GroupCounts())

    def _carry_out(self) -> None:
        output = self.coordinator.output.take()
        self.log.extend(output.records)
        for response in (*output.responses_at_once, *output.responses):
            response.send()

    def _advance_to(self, now: float) -> None:
        self.now_ms += round((now - self.now) * 1000)
        self.now = now


class Sleeper:
    """A group that does nothing but wait for its deadline."""

    kind = GroupKind.CLASSIC
    state = "Empty"
    protocol_type = ""
    empty_since_ms = 0

    def __init__(self, group_id: str, deadline: float = math.inf, *, is_empty: bool = True) -> None:
        self.group_id = group_id
        self.deadline = deadline
        self.is_empty = is_empty
        self.woken: list[float] = []
        self.next_deadline = math.inf
        self.parked: list[Waiter] = []

    def on_deadline(self, moment: Moment) -> None:
        self.woken.append(moment.now)
        self.deadline, self.next_deadline = self.next_deadline, math.inf

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, *, transactional: bool = False
    ) -> None: ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None: ...

    def check_deletable(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def subscribed_topics(self) -> frozenset[str] | None:
        return None

    def waiters(self) -> list[Waiter]:
        parked, self.parked = self.parked, []
        return parked

    def tombstones(self) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(self.group_id), None)]
