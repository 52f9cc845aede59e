"""Carries out what admin requests ask for: plans it from the Local Store, writes it, and waits until it has happened.

What happens between the write and its effect is the controllers' work, as for any other change of an object. Requests
are planned and written one after the other; only waiting for the effect is done side by side, so that a topic whose
SPUs are slow holds up nobody else.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.config_changes import Alteration
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.runtime.chance import Chance
from tailrace.runtime.wall_clock import WallClock
from tailrace.server.administration import TIMEOUT_MS

from .change_planning import (
    Planned,
    Plans,
    plan_configs,
    plan_deletions,
    plan_forgetting,
    plan_more_partitions,
    plan_producer_ids,
    plan_topics,
    plan_undeletion,
)
from .identities import new_topic_id
from .local_store import LocalStore
from .objects import Partition, PartitionResolution, Topic, TopicResolution
from .own_writes import OwnWrites

TIMEOUT_MS_MAX = 120_000
WRITE_SECONDS_MIN = 5
"""A client that does not want to wait for the effect still wants it written."""

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

Reached = Callable[[], bool]


class Administration:
    def __init__(
        self,
        writes: OwnWrites,
        local: LocalStore,
        cluster: Cluster,
        broker_configs: BrokerConfigs,
        wall_clock: WallClock,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        """`cluster` is the mirror that clients are answered from; it follows the Local Store."""
        self._writes = writes
        self._local = local
        self._cluster = cluster
        self._broker_configs = broker_configs
        self._wall_clock = wall_clock
        self._chance = chance
        self._logger = logger
        self.changing = trio.Lock()
        """Held from planning a change until the Local Store has it: the next one is planned from what it made."""

    # what Kafka's admin requests ask for

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        def plan(topics: Sequence[NewTopic]) -> Plans[TopicSpec]:
            return plan_topics(topics, self._local, self._spus(), lambda: new_topic_id(self._chance.uuid))

        if validate_only:
            return _without_writes(plan(topics))
        ends = _Ends(timeout_ms)
        created = await self._change(topics, plan, ends)
        return await self._when_served(created, ends)

    async def delete_topics(
        self, topic_ids: Sequence[TopicId], *, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        def plan(topic_ids: Sequence[TopicId]) -> Plans[TopicSpec]:
            return plan_deletions(topic_ids, self._local, self._wall_clock.now_ms())

        ends = _Ends(timeout_ms)
        deleted = await self._change(topic_ids, plan, ends)
        for topic in deleted:
            if isinstance(topic, TopicSpec):
                self._logger.info("topic_deleted", topic=topic.name, topic_id=str(topic.id))
        reached = [None if isinstance(topic, KafkaError) else self._is_gone(topic.id) for topic in deleted]
        return await self._when(reached, deleted, ends)

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        def plan(requests: Sequence[MorePartitions]) -> Plans[TopicSpec]:
            return plan_more_partitions(requests, self._local, self._spus())

        if validate_only:
            return _without_writes(plan(requests))
        ends = _Ends(timeout_ms)
        grown = await self._change(requests, plan, ends)
        return await self._when_served(grown, ends)

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        """The Local Store and the mirror have them at the end, and so will each SPU before its next metadata."""

        def plan(alterations: Sequence[Alteration]) -> Plans[Alteration]:
            return plan_configs(alterations, self._local, self._broker_configs)

        if validate_only:
            outcomes = _without_writes(plan(alterations))
        else:
            outcomes = await self._change(alterations, plan, _Ends(timeout_ms))
        return [outcome if isinstance(outcome, KafkaError) else None for outcome in outcomes]

    # what our own requests ask for

    async def undelete_topic(self, name_or_id: str, *, timeout_ms: int = TIMEOUT_MS) -> Topic:
        """Raises KafkaError."""

        def plan(names: Sequence[str]) -> Plans[Topic]:
            return [_caught(plan_undeletion, names[0], self._local)]

        ends = _Ends(timeout_ms)
        (topic,) = await self._change([name_or_id], plan, ends)
        if isinstance(topic, KafkaError):
            raise topic
        self._logger.info("topic_undeleted", topic=topic.name, topic_id=str(topic.id))
        (served,) = await self._when([self._is_served(topic.id)], [topic], ends)
        if isinstance(served, KafkaError):
            raise served
        return self._local.topics_by_id.get(topic.id, topic)

    async def allocate_producer_ids(self) -> range:
        """A block that nobody else has or will get, also after a crash. Raises KafkaError."""
        (block,) = await self._change([None], lambda _: [plan_producer_ids(self._local)], _Ends(TIMEOUT_MS))
        if isinstance(block, KafkaError):
            raise block
        return block

    # what is done without being asked

    async def forget_deleted_topics(self) -> None:
        """Those whose storage is no longer kept."""

        def plan(_: Sequence[None]) -> Plans[None]:
            retention_ms = self._broker_configs.settings.deleted_topic_retention_ms
            return [Planned(None, plan_forgetting(self._local, self._wall_clock.now_ms(), retention_ms))]

        await self._change([None], plan, _Ends(TIMEOUT_MS))

    # the write and the effect

    async def _change(
        self, items: Sequence[I], plan: Callable[[Sequence[I]], Plans[R]], ends: "_Ends"
    ) -> list[R | KafkaError]:
        """Plans and writes; what was changed by somebody else in the meantime is planned again, from what it is now."""
        results: list[R | KafkaError] = [_timed_out("it could not be written to the store in time")] * len(items)
        todo = list(range(len(items)))
        try:
            with trio.move_on_at(ends.writing_at):
                async with self.changing:
                    while todo:
                        todo = await self._change_once(todo, items, plan, results)
        except KafkaError as error:
            for place in todo:
                results[place] = error
        return results

    async def _change_once(
        self,
        todo: Sequence[int],
        items: Sequence[I],
        plan: Callable[[Sequence[I]], Plans[R]],
        results: list[R | KafkaError],
    ) -> list[int]:
        """Those that have to be planned again."""
        planned: list[tuple[int, Planned[R]]] = []
        for place, each in zip(todo, plan([items[place] for place in todo]), strict=True):
            if isinstance(each, KafkaError):
                results[place] = each
            else:
                planned.append((place, each))
        written = iter(await self._writes.write([write for _, each in planned for write in each.writes]))
        again = []
        for place, each in planned:
            its_writes = list(islice(written, len(each.writes)))
            if all(its_writes):
                results[place] = each.result
            else:
                again.append(place)
        return again

    async def _when_served(self, topics: list[TopicSpec | KafkaError], ends: "_Ends") -> list[TopicSpec | KafkaError]:
        reached = [None if isinstance(topic, KafkaError) else self._is_served(topic.id, topic) for topic in topics]
        outcomes = await self._when(reached, topics, ends)
        return [
            outcome if isinstance(outcome, KafkaError) else self._cluster.topic_by_id(outcome.id) or outcome
            for outcome in outcomes
        ]

    async def _when(
        self, reached: Sequence[Reached | None], results: Sequence[R | KafkaError], ends: "_Ends"
    ) -> list[R | KafkaError]:
        """The results, once what belongs to each is reached; an error for those that are not in time."""
        waiting = dict(enumerate(reached))

        def all_reached() -> bool:
            for place in [place for place, each in waiting.items() if each is None or each()]:
                del waiting[place]
            return not waiting

        with trio.move_on_at(ends.at):
            await self._writes.until(all_reached)
        return [
            _timed_out("it has been stored, and will take effect later") if place in waiting else result
            for place, result in enumerate(results)
        ]

    def _is_served(self, topic_id: TopicId, planned: TopicSpec | None = None) -> Reached:
        """Whether every partition has a leader that reported in; one that nobody online holds is not waited for."""
        left = None if planned is None else list(range(len(planned.partitions)))

        def reached() -> bool:
            nonlocal left
            topic = self._local.topics_by_id.get(topic_id)
            if topic is None:
                return True  # deleted meanwhile
            if left is None:
                left = list(range(topic.spec.partitions))
            if topic.status.resolution is not TopicResolution.PROVISIONED:
                return False
            while left:
                partition = self._local.partitions.get((topic_id, left[-1]))
                if partition is None or not self._has_settled(partition):
                    return False
                left.pop()  # what is reached once need not be looked at again with each event
            mirrored = self._cluster.topic_by_id(topic_id)
            return mirrored is not None and len(mirrored.partitions) >= topic.spec.partitions

        return reached

    def _has_settled(self, partition: Partition) -> bool:
        if partition.status.resolution is PartitionResolution.ONLINE:
            return True
        return not any(spu in self._local.spus and self._local.spus[spu].is_online for spu in partition.spec.replicas)

    def _is_gone(self, topic_id: TopicId) -> Reached:
        return lambda: topic_id not in self._local.topics_by_id and self._cluster.topic_by_id(topic_id) is None

    def _spus(self) -> list[SpuId]:
        return sorted(self._local.spus)


class _Ends:
    """Until when a request waits for its write, and for the effect."""

    def __init__(self, timeout_ms: int) -> None:
        now = trio.current_time()
        self.at = now + min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
        self.writing_at = max(self.at, now + WRITE_SECONDS_MIN)


def _without_writes(plans: Plans[R]) -> list[R | KafkaError]:
    return [each if isinstance(each, KafkaError) else each.result for each in plans]


def _caught(plan: Callable[[str, LocalStore], Planned[R]], name: str, local: LocalStore) -> Planned[R] | KafkaError:
    try:
        return plan(name, local)
    except KafkaError as error:
        return error


def _timed_out(why: str) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
