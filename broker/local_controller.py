"""The source of specs inside the SPU: creates and deletes topics, alters configs, gives out producer ids.

It stands where the Streaming Controller will: it decides what there should be, remembers it in one file, and only then
lets it take effect in the mirror that handlers read and in the replicas. Whoever asks for a change is answered when it
has taken effect, or with a KafkaError when nothing of it has.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import trio

from tailrace.cluster.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.config_changes import Alteration, ResourceKind, altered, named_twice
from tailrace.cluster.config_definitions import ConfigDefinition, Value
from tailrace.cluster.specs import SpuSpec, TopicSpec
from tailrace.cluster.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.topic_configs import check_topic_configs, effective_value
from tailrace.cluster.topic_planning import MorePartitions, NewTopic, check_added, plan_partitions, plan_topic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.runtime.chance import Chance
from tailrace.runtime.files import Files
from tailrace.runtime.wall_clock import WallClock

from .controller_state import (
    ControllerState,
    DeletedTopic,
    StateError,
    decode_state,
    encode_state,
    new_cluster_id,
    new_topic_id,
)
from .topic_settings import TopicSettings, settings_of

STATE_FILE = "controller.json"
PRODUCER_IDS_PER_BLOCK = 1000
DELETED_TOPICS_MAX = 1000
"""Remembered at a time; what is forgotten can no longer be brought back."""
_SHARED_SETTINGS_MAX = 1000


class SpecSink(Protocol):
    """Whoever makes specs real on this SPU."""

    async def apply_topic(self, topic: TopicSpec, settings: TopicSettings) -> None:
        """From now on the topic is as the spec says; called again whenever it or its settings change."""

    async def remove_topic(self, topic_id: TopicId) -> None:
        """The topic is gone; its storage is kept, for it may be brought back."""


class LocalController:
    def __init__(
        self,
        spu: SpuSpec,
        data_directory: str,
        files: Files,
        wall_clock: WallClock,
        chance: Chance,
        cluster: Cluster,
        broker_configs: BrokerConfigs,
        sink: SpecSink,
    ) -> None:
        self._spu = spu
        self._path = f"{data_directory}/{STATE_FILE}"
        self._files = files
        self._wall_clock = wall_clock
        self._chance = chance
        self._cluster = cluster
        self._broker_configs = broker_configs
        self._sink = sink
        self._state = ControllerState(cluster_id="")
        self._changing = trio.Lock()
        """Held from reading the state to the effect of its change: changes happen one after the other."""
        self._settings: dict[frozenset[tuple[str, str]], TopicSettings] = {}
        """Shared by the topics that set the same configs; emptied when those of the SPU change."""

    async def start(self, *, clean: bool) -> None:
        """Applies what was there before. After an unclean stop every partition gets a new leader epoch: what its log
        lost must not be taken for what is appended next at the same offsets. Raises StateError."""
        async with self._changing:
            if self._files.exists(self._path):
                state = self._read()
            else:
                state = ControllerState(new_cluster_id(self._chance.uuid))
                clean = False
            if not clean:
                topics = {name: _at_next_epoch(topic) for name, topic in state.topics.items()}
                state = replace(state, topics=topics)
                await self._files.replace(self._path, encode_state(state))
            self._state = state
            self._use_broker_configs()
            self._cluster.put_spu(self._spu)
            self._cluster.identify(state.cluster_id, self._spu.id)
            for topic in state.topics.values():
                await self._apply(topic)

    # what is

    @property
    def deleted_topics(self) -> Sequence[DeletedTopic]:
        """Those that can still be brought back, the oldest first."""
        return self._state.deleted_topics

    # topics

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> list[TopicSpec | KafkaError]:
        """For each, in the same order: the topic, or why there is none."""
        async with self._changing:
            planned = dict(self._state.topics)
            results: list[TopicSpec | KafkaError] = []
            added = 0
            for new in topics:
                try:
                    topic = plan_topic(new, new_topic_id(self._chance.uuid), planned, self._spus())
                    check_added(added + len(topic.partitions))
                except KafkaError as error:
                    results.append(error)
                    continue
                added += len(topic.partitions)
                planned[topic.name] = topic
                results.append(topic)
            created = [result for result in results if isinstance(result, TopicSpec)]
            if created and not validate_only:
                with trio.CancelScope(shield=True):  # what is in the file must take effect, whoever stops waiting
                    await self._remember(replace(self._state, topics=planned))
                    for topic in created:
                        await self._apply(topic)
            return results

    async def delete_topics(self, topic_ids: Sequence[TopicId], *, timeout_ms: int = 0) -> list[TopicSpec | KafkaError]:
        """For each, in the same order: the topic as it was, or why it is not deleted."""
        async with self._changing:
            kept = {topic.id: topic for topic in self._state.topics.values()}
            results: list[TopicSpec | KafkaError] = []
            for topic_id in topic_ids:
                topic = kept.pop(topic_id, None)
                results.append(topic or KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {topic_id}"))
            deleted = [result for result in results if isinstance(result, TopicSpec)]
            if deleted:
                now_ms = self._wall_clock.now_ms()
                state = replace(
                    self._state,
                    topics={topic.name: topic for topic in kept.values()},
                    deleted_topics=self._still_kept(now_ms, [DeletedTopic(topic, now_ms) for topic in deleted]),
                )
                with trio.CancelScope(shield=True):
                    await self._remember(state)
                    for topic in deleted:
                        self._cluster.remove_topic(topic.id)
                        await self._sink.remove_topic(topic.id)
            return results

    async def undelete_topic(self, topic_id: TopicId) -> TopicSpec:
        """Brings a deleted topic back as it was. Raises KafkaError when it cannot be."""
        async with self._changing:
            kept = self._still_kept(self._wall_clock.now_ms(), ())
            found = next((each.topic for each in kept if each.topic.id == topic_id), None)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no deleted topic {topic_id} is kept")
            if found.name in self._state.topics:
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is another topic {found.name} now")
            topic = _at_next_epoch(found)
            state = replace(
                self._state,
                topics={**self._state.topics, topic.name: topic},
                deleted_topics=tuple(each for each in kept if each.topic.id != topic_id),
            )
            with trio.CancelScope(shield=True):
                await self._remember(state)
                await self._apply(topic)
            return topic

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False, timeout_ms: int = 0
    ) -> list[TopicSpec | KafkaError]:
        """For each, in the same order: the topic with its new partitions, or why it has none."""
        async with self._changing:
            results: list[TopicSpec | KafkaError] = []
            grown: dict[str, TopicSpec] = {}
            added = 0
            for request in requests:
                topic = self._state.topics.get(request.topic)
                try:
                    if topic is None:
                        raise _no_topic(request.topic)
                    after = plan_partitions(request, topic, self._spus())
                    check_added(added + len(after.partitions) - len(topic.partitions))
                except KafkaError as error:
                    results.append(error)
                    continue
                added += len(after.partitions) - len(topic.partitions)
                grown[after.name] = after
                results.append(after)
            if grown and not validate_only:
                with trio.CancelScope(shield=True):
                    await self._remember(replace(self._state, topics={**self._state.topics, **grown}))
                    for topic in grown.values():
                        await self._apply(topic)
            return results

    # configs

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[KafkaError | None]:
        """For each, in the same order: why nothing of it was done, or None when all of it was."""
        async with self._changing:
            state = self._state
            twice = named_twice([(each.kind, each.name) for each in alterations])
            results: list[KafkaError | None] = []
            changed: list[str] = []
            for alteration in alterations:
                try:
                    if (alteration.kind, alteration.name) in twice:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{alteration.name!r} is named twice")
                    if alteration.kind == ResourceKind.TOPIC:
                        state = self._with_topic_configs(state, alteration)
                        changed.append(alteration.name)
                    else:
                        state = self._with_broker_configs(state, alteration)
                    results.append(None)
                except KafkaError as error:
                    results.append(error)
            if state is not self._state and not validate_only:
                everywhere = state.broker_configs != self._state.broker_configs
                with trio.CancelScope(shield=True):
                    await self._remember(state)
                    if everywhere:
                        self._use_broker_configs()
                    for name in self._state.topics if everywhere else changed:
                        await self._apply(self._state.topics[name])
            return results

    def _with_topic_configs(self, state: ControllerState, alteration: Alteration) -> ControllerState:
        if not alteration.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "configs of topics are altered one topic at a time: name one")
        topic = state.topics.get(alteration.name)
        if topic is None:
            raise _no_topic(alteration.name)

        def effective(definition: ConfigDefinition) -> Value:
            return effective_value(definition, topic.configs, self._broker_configs)[0]

        configs = check_topic_configs(altered(topic.configs, alteration, TOPIC_CONFIGS, effective))
        return replace(state, topics={**state.topics, topic.name: replace(topic, configs=configs)})

    def _with_broker_configs(self, state: ControllerState, alteration: Alteration) -> ControllerState:
        if alteration.kind != ResourceKind.BROKER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no resource of type {alteration.kind} can be altered here")
        if alteration.name not in ("", *map(str, self._spus())):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no SPU {alteration.name!r:.100}")
        fixed = [
            change.name
            for change in alteration.changes
            if change.name in BROKER_CONFIGS and BROKER_CONFIGS[change.name].read_only
        ]
        if fixed:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{fixed[0]} can only be set when the SPU starts")
        before = state.broker_configs.get(alteration.name, {})

        def effective(definition: ConfigDefinition) -> Value:
            return self._broker_configs.value(definition.name)

        try:
            after = altered(before, alteration, BROKER_CONFIGS, effective)
        except KafkaError as error:  # for topics Kafka has an error of its own, for brokers it does not use it
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error
        return replace(state, broker_configs={**state.broker_configs, alteration.name: after})

    # producer ids

    async def allocate_producer_ids(self) -> range:
        """A block that nobody else has or will get, also after a crash."""
        async with self._changing:
            first = self._state.next_producer_id
            block = range(first, first + PRODUCER_IDS_PER_BLOCK)
            with trio.CancelScope(shield=True):
                await self._remember(replace(self._state, next_producer_id=block.stop))
            return block

    # the file and the effect

    def _read(self) -> ControllerState:
        try:
            return decode_state(self._files.read(self._path))
        except (OSError, StateError) as error:
            raise StateError(f"{self._path} cannot be used as the controller's state: {error}") from error

    async def _remember(self, state: ControllerState) -> None:
        try:
            await self._files.replace(self._path, encode_state(state))
        except OSError as error:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller's state could not be written: {error}"
            ) from error
        self._state = state

    async def _apply(self, topic: TopicSpec) -> None:
        self._cluster.put_topic(topic)
        await self._sink.apply_topic(topic, self._settings_of(topic))
        await trio.lowlevel.checkpoint()  # many topics at once leave room for clients in between

    def _use_broker_configs(self) -> None:
        configs = self._state.broker_configs
        self._broker_configs.use_dynamic(own=configs.get(str(self._spu.id), {}), default=configs.get("", {}))
        self._settings.clear()

    def _settings_of(self, topic: TopicSpec) -> TopicSettings:
        key = frozenset(topic.configs.items())
        settings = self._settings.get(key)
        if settings is None:
            if len(self._settings) >= _SHARED_SETTINGS_MAX:
                self._settings.clear()
            settings = self._settings[key] = settings_of(topic.configs, self._broker_configs)
        return settings

    def _spus(self) -> list[SpuId]:
        return sorted(self._cluster.spus)

    def _still_kept(self, now_ms: int, added: Sequence[DeletedTopic]) -> tuple[DeletedTopic, ...]:
        oldest_ms = now_ms - self._broker_configs.settings.deleted_topic_retention_ms
        kept = [each for each in (*self._state.deleted_topics, *added) if each.deleted_at_ms > oldest_ms]
        return tuple(kept[-DELETED_TOPICS_MAX:])


def _at_next_epoch(topic: TopicSpec) -> TopicSpec:
    partitions = tuple(replace(each, epoch=Epoch(each.epoch + 1)) for each in topic.partitions)
    return replace(topic, partitions=partitions)


def _no_topic(name: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:300]!r}")
