"""Carries out admin requests: plans a change, writes it, and waits until it takes effect.

Between the write and its effect the controllers act, as after any other change of an object.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import trio

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_changes import Alteration
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import MorePartitions, NewTopic
from tailrace.controller.objects.identities import new_topic_id
from tailrace.controller.objects.objects import Topic
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import TopicId
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.security.records.security_records import SecurityRecord, key_of, kind_of
from tailrace.server.administration import (
    TIMEOUT_MS,
    OngoingReassignment,
    PartitionName,
    Reassignment,
    SecurityEdit,
    TopicIdentity,
)

from .change_planning import (
    plan_configs,
    plan_deletions,
    plan_end_of_leadership,
    plan_more_partitions,
    plan_producer_ids,
    plan_purge,
    plan_topics,
    plan_undeletion,
)
from .completion import CompletionConditions
from .election_planning import Elected, plan_elections
from .planned_changes import ChangeWriter, Deadlines, Planned, Plans, plan_each, result_or_raise, without_writes
from .reassignment_planning import (
    Outcomes,
    TopicReassignments,
    group_by_topic,
    ongoing_reassignments,
    plan_reassignments,
)
from .security_planning import plan_security

if TYPE_CHECKING:
    from .token_requests import TokenRequests

RESTORED_SERVICE_MS_MAX = 2_000
"""How long the response to an undeletion waits for leaders. The topic is restored even if that takes longer."""


class AdminRequests:
    """Carries out admin requests of clients, and a few changes of the SC itself."""

    def __init__(
        self,
        writer: ChangeWriter,
        completion: CompletionConditions,
        local: LocalStore,
        observed: Observed,
        broker_configs: BrokerConfigs,
        wall_clock: WallClock,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        self._writer = writer
        self._completion = completion
        self._local = local
        self._observed = observed
        self._broker_configs = broker_configs
        self._wall_clock = wall_clock
        self._chance = chance
        self._logger = logger

    @cached_property
    def tokens(self) -> "TokenRequests":
        """Carries out the requests about delegation tokens."""
        from .token_requests import TokenRequests  # few clusters have delegation tokens

        return TokenRequests(
            self.change_security,
            self._completion.cluster.security,
            self._broker_configs,
            self._wall_clock,
            self._chance,
            self._logger,
        )

    # Kafka's admin requests

    def identify(self, topic: str | TopicId) -> TopicIdentity | None:
        """Returns the name and the id of a topic, given one of them."""
        found = self._local.topics.get(topic) if isinstance(topic, str) else self._local.topics_by_id.get(topic)
        return None if found is None else TopicIdentity(found.name, found.id)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        def plan(topics: Sequence[NewTopic]) -> Plans[TopicSpec]:
            return plan_topics(topics, self._local, lambda: new_topic_id(self._chance.uuid))

        if validate_only:
            return without_writes(plan(topics))
        deadlines = Deadlines(timeout_ms)
        created = await self._writer.write(topics, plan, deadlines)
        return await self._wait_until_served(created, deadlines)

    async def delete_topics(
        self, topic_ids: Sequence[TopicId], *, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        def plan(topic_ids: Sequence[TopicId]) -> Plans[TopicSpec]:
            return plan_deletions(topic_ids, self._local, self._wall_clock.now_ms())

        deadlines = Deadlines(timeout_ms)
        deleted = await self._writer.write(topic_ids, plan, deadlines)
        for topic in deleted:
            if isinstance(topic, TopicSpec):
                self._logger.info("topic_deleted", topic=topic.name, topic_id=str(topic.id))
        deletions = [
            None if isinstance(topic, KafkaError) else self._completion.topic_deleted(topic.id) for topic in deleted
        ]
        return await self._writer.wait_for(deletions, deleted, deadlines)

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[TopicSpec | KafkaError]:
        def plan(requests: Sequence[MorePartitions]) -> Plans[TopicSpec]:
            return plan_more_partitions(requests, self._local)

        if validate_only:
            return without_writes(plan(requests))
        deadlines = Deadlines(timeout_ms)
        grown = await self._writer.write(requests, plan, deadlines)
        for topic in grown:
            if isinstance(topic, TopicSpec):
                self._logger.info("partitions_added", topic=topic.name, partitions=len(topic.partitions))
        return await self._wait_until_served(grown, deadlines)

    async def elect_leaders(
        self, partitions: Sequence[PartitionName], *, unclean: bool, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        def plan(partitions: Sequence[PartitionName]) -> Plans[Elected]:
            return plan_elections(partitions, self._local, self._observed, unclean=unclean)

        deadlines = Deadlines(timeout_ms)
        elected = await self._writer.write(partitions, plan, deadlines)
        leaderships = [
            None if isinstance(each, KafkaError) else self._completion.partition_led(*each) for each in elected
        ]
        outcomes = await self._writer.wait_for(leaderships, elected, deadlines)
        return [outcome if isinstance(outcome, KafkaError) else None for outcome in outcomes]

    async def reassign(
        self, wanted: Sequence[Reassignment], *, other_factor_allowed: bool = True, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        def plan(topics: Sequence[TopicReassignments]) -> Plans[Outcomes]:
            return plan_reassignments(topics, self._local, other_factor_allowed=other_factor_allowed)

        topics = group_by_topic(wanted)
        planned = await self._writer.write(topics, plan, Deadlines(timeout_ms))
        outcomes = {each.topic: outcome for each, outcome in zip(topics, planned, strict=True)}
        return [_of_partition(outcomes[each.topic], each.partition) for each in wanted]

    async def reassignments(self) -> list[OngoingReassignment]:
        await trio.lowlevel.checkpoint()
        return ongoing_reassignments(self._local)

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> list[KafkaError | None]:
        """Changes configs. On return, the Local Store and the mirror have them; SPUs get them before newer metadata."""

        def plan(alterations: Sequence[Alteration]) -> Plans[Alteration]:
            return plan_configs(alterations, self._local, self._broker_configs)

        if validate_only:
            outcomes = without_writes(plan(alterations))
        else:
            outcomes = await self._writer.write(alterations, plan, Deadlines(timeout_ms))
        return [outcome if isinstance(outcome, KafkaError) else None for outcome in outcomes]

    async def change_security(
        self,
        puts: Sequence[SecurityRecord] = (),
        removals: Sequence[tuple[str, str]] = (),
        edits: Sequence[SecurityEdit] = (),
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[KafkaError | None]:
        def plan(edits: Sequence[SecurityEdit]) -> Plans[None]:
            return plan_security(edits, self._local)

        every = [*map(_put, puts), *(SecurityEdit(kind, key, _remove) for kind, key in removals), *edits]
        return await self._writer.write(every, plan, Deadlines(timeout_ms))

    # Tailrace's own requests

    async def undelete_topic(self, name_or_id: str) -> Topic:
        """Restores a deleted topic and returns it, with leaders if they are elected soon. Raises KafkaError."""

        retention_ms = self._broker_configs.settings.deleted_topic_retention_ms

        def plan_first(name_or_id: str) -> Planned[None]:
            return plan_end_of_leadership(name_or_id, self._local, self._wall_clock.now_ms(), retention_ms)

        def plan(name_or_id: str) -> Planned[Topic]:
            return plan_undeletion(name_or_id, self._local, self._wall_clock.now_ms(), retention_ms)

        deadlines = Deadlines(TIMEOUT_MS)
        (ended,) = await self._writer.write([name_or_id], plan_each(plan_first), deadlines)
        result_or_raise(ended)
        (planned,) = await self._writer.write([name_or_id], plan_each(plan), deadlines)
        topic = result_or_raise(planned)
        self._logger.info("topic_undeleted", topic=topic.name, topic_id=str(topic.id))
        is_settled = self._completion.topic_settled(topic.id, topic.spec.partitions)
        await self._writer.wait_for([is_settled], [topic], Deadlines(RESTORED_SERVICE_MS_MAX))
        return self._local.topics_by_id.get(topic.id, topic)

    async def allocate_producer_ids(self) -> range:
        """Allocates a block of producer ids, which no one else ever gets, even after a crash. Raises KafkaError."""

        def plan(_: None) -> Planned[range]:
            return plan_producer_ids(self._local, self._wall_clock.now_ms())

        (block,) = await self._writer.write([None], plan_each(plan), Deadlines(TIMEOUT_MS))
        return result_or_raise(block)

    # changes of the SC itself

    async def forget_deleted_topics(self) -> None:
        """Forgets deleted topics whose files the SPUs no longer keep."""

        def plan(_: None) -> Planned[None]:
            retention_ms = self._broker_configs.settings.deleted_topic_retention_ms
            return Planned(None, plan_purge(self._local, self._wall_clock.now_ms(), retention_ms))

        await self._writer.write([None], plan_each(plan), Deadlines(TIMEOUT_MS))

    async def forget_expired_tokens(self) -> None:
        """Removes delegation tokens that have expired."""
        if self._completion.cluster.security.tokens:
            await self.tokens.forget_expired()

    async def _wait_until_served(
        self, topics: list[TopicSpec | KafkaError], deadlines: Deadlines
    ) -> list[TopicSpec | KafkaError]:
        """Waits until the topics are served, and returns them as the mirror shows them."""
        served = [
            None if isinstance(topic, KafkaError) else self._completion.topic_served(topic.id, len(topic.partitions))
            for topic in topics
        ]
        outcomes = await self._writer.wait_for(served, topics, deadlines)
        mirror = self._completion.cluster
        return [
            outcome if isinstance(outcome, KafkaError) else mirror.topic_by_id(outcome.id) or outcome
            for outcome in outcomes
        ]


def _put(record: SecurityRecord) -> SecurityEdit:
    return SecurityEdit(kind_of(record), key_of(record), lambda _: record)


def _remove(_: SecurityRecord | None) -> None:
    return None


def _of_partition(outcome: Outcomes | KafkaError, partition: int) -> KafkaError | None:
    return outcome if isinstance(outcome, KafkaError) else outcome[partition]
