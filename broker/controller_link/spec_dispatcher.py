"""Turns specs into running replicas: what the Streaming Controller says should be here, is here after the call.

A replica's storage is kept when its topic goes: it is parked under the topic's id for a while, so that a deleted topic
can come back, and a new topic of the same name, which has another id, starts empty. A single partition that moves away
leaves its files where they are: they go with the topic, and are attached again if it returns.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import trio
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from tailrace.broker.descriptions.replica_counts import note_live_replicas
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import TopicSettings, settings_of
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.broker.upkeep.closed_replicas import ClosedReplicas
from tailrace.broker.upkeep.flusher import Flusher
from tailrace.broker.upkeep.parking import Parking, Storage
from tailrace.broker.upkeep.unreadable_logs import UnreadableLogs
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.runtime.files import Files
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.log.log import Log

from .held_specs import HeldSpecs, HeldTopic
from .replica_opener import ReplicaOpener

APPLIED_IN_A_ROW = 5
"""Thousands of partitions must not keep clients waiting: after so many it is their turn."""
REMOVED_IN_A_ROW = 50
CLOSES_AT_ONCE = 16
"""Each waits for its disk, and all other specs for the last of them."""
_SHARED_SETTINGS_MAX = 1000


class OnShelved(Protocol):
    """Whoever keeps the shelves on this SPU."""

    def __call__(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], /, *, is_full: bool) -> None:
        """`specs`: partitions of which this SPU keeps a shelf, or is to get one; `removed`: those of which it keeps
        none, whether it ever did or not; `is_full`: of no other partition than `specs` is there to be a shelf here.
        Returns at once, and raises nothing: whatever it takes is done later."""


def _keep_none(specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], /, *, is_full: bool) -> None:
    pass


class SpecDispatcher:
    def __init__(
        self,
        spu: SpuId,
        data_directory: str,
        files: Files,
        replicas: ReplicaRegistry,
        parking: Parking,
        broker_configs: BrokerConfigs,
        flusher: Flusher,
        metrics: BrokerMetrics,
        replication: ReplicaInfoDispatcher,
        closed: ClosedReplicas,
        nursery: trio.Nursery,
        repair: Callable[[Replica, int], Awaitable[bool]],
        logger: FilteringBoundLogger,
        on_shelved: OnShelved = _keep_none,
    ) -> None:
        """`repair` serves `UnreadableLogs`. `on_shelved` is called with each message, before the replicas that it names
        have their specs."""
        self._spu = spu
        self._replicas = replicas
        self._parking = parking
        self._broker_configs = broker_configs
        self._flusher = flusher
        self._metrics = metrics
        self._replication = replication
        self._logger = logger
        self._closed = closed
        self._unreadable = UnreadableLogs(nursery, repair, closed, self)
        self._opener = ReplicaOpener(
            spu,
            data_directory,
            files,
            replicas,
            parking,
            flusher,
            metrics,
            replication,
            closed,
            self._unreadable,
            logger,
        )
        self._topics: dict[TopicId, HeldTopic] = {}
        self._settings: dict[frozenset[tuple[str, str]], TopicSettings] = {}
        """Shared by the topics that set the same configs; emptied when those of the SPU change."""
        self._settings_in_use: dict[TopicId, TopicSettings] = {}
        self._applying = trio.Lock()
        self._in_a_row = 0
        self._on_shelved = on_shelved
        self.has_applied_all = False
        """Before, what lies here may belong to topics that were not heard of yet."""

    async def apply(self, specs: HeldSpecs) -> None:
        """Carries out all that can be, whoever stops waiting. Raises KafkaError for the first thing that cannot."""
        refused: list[KafkaError] = []
        async with self._applying:
            with trio.CancelScope(shield=True):
                # What goes, goes first: a topic that was made again has the name of one that was deleted.
                await self._remove(self._gone(specs))
                self._on_shelved(specs.shelved, specs.unshelved, is_full=specs.is_full)
                topics = {topic.id: topic for topic in specs.topics}
                if self._use_broker_configs(specs, refused):
                    topics = self._topics | topics
                for topic in topics.values():
                    await self._apply_topic(topic, refused)
                if specs.is_full and not self.has_applied_all:
                    self._closed.whole.clear()  # storage that is attached from now on has no mark that speaks for it
                    # Also what could not be applied: it may be understood another time.
                    held = {topic.id: {spec.partition for spec in topic.partitions} for topic in specs.topics}
                    await self._park_orphans(held)
                    self.has_applied_all = True
        if refused:
            raise refused[0]

    # configs

    def _use_broker_configs(self, specs: HeldSpecs, refused: list[KafkaError]) -> bool:
        """Whether they are others than before."""
        configs = self._broker_configs
        own, default = configs.dynamic_own, configs.dynamic_default
        if (specs.own_configs, specs.default_configs) == (own, default):
            return False
        try:
            configs.use_dynamic(own=specs.own_configs, default=specs.default_configs)
        except KafkaError as error:
            self._logger.error("configs_not_applied", reason=str(error))
            configs.use_dynamic(own=own, default=default)
            refused.append(error)
            return False
        self._settings.clear()
        return True

    def _settings_of(self, topic: HeldTopic) -> TopicSettings:
        key = frozenset(topic.configs.items())
        settings = self._settings.get(key)
        if settings is None:
            if len(self._settings) >= _SHARED_SETTINGS_MAX:
                self._settings.clear()
            settings = self._settings[key] = settings_of(topic.configs, self._broker_configs)
        return settings

    # what should be here

    async def _apply_topic(self, named: HeldTopic, refused: list[KafkaError]) -> None:
        before = self._topics.get(named.id)
        if before is None:
            with suppress(OSError):  # each of its replicas finds that again, and stays away
                await self._parking.unpark(Storage(named.name, named.id))
        try:
            settings = self._settings_of(named)
        except KafkaError as error:
            self._logger.error("topic_not_applied", topic=named.name, reason=str(error))
            refused.append(error)
            return
        topic = named if before is None else _merged(before, named)
        self._topics[topic.id] = topic
        concerned = topic.partitions
        if self._settings_in_use.get(topic.id) is settings:
            concerned = named.partitions  # of thousands, mostly few
        self._settings_in_use[topic.id] = settings
        self._logger.debug("specs_dispatched", topic=topic.name, partitions=len(concerned))
        missing = [spec.partition for spec in concerned if self._replicas.find(topic.id, spec.partition) is None]
        untouched = self._parking.untouched(Storage(topic.name, topic.id), missing) if missing else ()
        for spec in concerned:
            replica = self._replicas.find(spec.topic_id, spec.partition)
            if replica is not None:
                if replica.use_settings(settings):
                    self._flusher.on_settings(replica)
                await self._use_spec(replica, spec)
            elif self._is_worth_opening(spec):
                await self._open(spec, settings, is_new=spec.partition in untouched)
            self._in_a_row += 1
            if self._in_a_row % APPLIED_IN_A_ROW == 0:
                await trio.lowlevel.checkpoint()

    async def _use_spec(self, replica: Replica, spec: PartitionSpec) -> None:
        if (spec.epoch, spec.version) < (replica.spec.epoch, replica.spec.version):
            self._log(spec).warning("stale_spec_ignored", epoch=spec.epoch, known=replica.spec.epoch)
        elif spec != replica.spec:
            note_live_replicas(self._metrics, self._spu, replica.spec, spec)
            replica.use_spec(spec)
            await self._replication.attend(replica)

    def _is_worth_opening(self, spec: PartitionSpec) -> bool:
        """A log that did not open is not looked through again and again, but once for each election, and when it has
        been mended. One for which no more files could be opened is tried whenever the Streaming Controller names it:
        nothing is wrong with it."""
        damage = self._replicas.damaged.get((spec.topic_id, spec.partition))
        return damage is None or damage.epoch != spec.epoch

    async def _open(self, spec: PartitionSpec, settings: TopicSettings, *, is_new: bool = False) -> None:
        await self._opener.open(spec, settings, is_new=is_new, is_starting=not self.has_applied_all)

    async def on_readable(self, key: ReplicaKey) -> None:
        """One that did not open, and can be read by now."""
        topic_id, partition = key
        async with self._applying:
            topic = self._topics.get(topic_id)
            if topic is None or key not in self._replicas.damaged:
                return
            with trio.CancelScope(shield=True):
                for spec in topic.partitions:
                    if spec.partition == partition:
                        await self._open(spec, self._settings_in_use[topic_id])
                        self._replication.on_availability_changed(key)

    async def on_unreadable(self, replica: Replica) -> None:
        """One that leads or follows, and whose log cannot be read any more where that matters."""
        key = replica.key
        async with self._applying:
            damaged_from = replica.damaged_from
            if self._replicas.find(*key) is not replica or damaged_from is None or replica.log.has_failed:
                return
            with trio.CancelScope(shield=True):
                await self._replication.leave(replica)
                saved = replica.saved_high_watermark
                self._closed.keep(key, saved)
                self._replicas.remove(replica.spec)
                replica.release_log()
                self._replicas.add_damaged(replica.spec, str(replica.offline_reason))
                self._replication.on_failed(key)
                self._replication.on_availability_changed(key)
                again = Replica(self._spu, replica.spec, replica.log, replica.settings, saved.value, saved.epoch)
                self._unreadable.add(again, damaged_from, was_whole=False)

    def on_log_closed(self, log: Log) -> None:
        """Implements `LogOwner`."""
        self._opener.on_log_closed(log)

    # what should be here no more

    def _gone(self, specs: HeldSpecs) -> list[PartitionSpec]:
        if specs.is_full:
            named = set(specs.named())
            held = (spec for topic in self._topics.values() for spec in topic.partitions)
            return [spec for spec in held if (spec.topic_id, spec.partition) not in named]
        removed = set(specs.removed)
        topics = dict.fromkeys(topic_id for topic_id, _ in specs.removed if topic_id in self._topics)
        concerned = (spec for topic_id in topics for spec in self._topics[topic_id].partitions)
        return [spec for spec in concerned if (spec.topic_id, spec.partition) in removed]

    async def _remove(self, gone: list[PartitionSpec]) -> None:
        """The replicas stop, and their storage is parked: by topics, where nothing of a topic is left here."""
        replicas: list[Replica] = []
        for number, spec in enumerate(gone, 1):
            if (replica := self._replicas.remove(spec)) is not None:
                # From now on: whoever writes them down finds it nowhere else.
                self._closed.keep(replica.key, replica.saved_high_watermark)
                reason = f"{replica.topic}-{replica.partition} was deleted, or moved to other SPUs"
                replica.refuse_waiters(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))
                replicas.append(replica)
            if number % REMOVED_IN_A_ROW == 0:
                await trio.lowlevel.checkpoint()
        to_close = iter(replicas)
        async with trio.open_nursery() as nursery:
            for _ in range(min(CLOSES_AT_ONCE, len(replicas))):
                nursery.start_soon(self._close_each, to_close)
            for spec in gone:
                await self._unreadable.give_back((spec.topic_id, spec.partition))
        keys = {(spec.topic_id, spec.partition) for spec in gone}
        for topic_id in dict.fromkeys(spec.topic_id for spec in gone):
            topic = self._topics.pop(topic_id)
            self._settings_in_use.pop(topic_id, None)
            left = tuple(spec for spec in topic.partitions if (topic_id, spec.partition) not in keys)
            if left:
                self._topics[topic_id] = replace(topic, partitions=left)
                for spec in topic.partitions:
                    is_gone = (topic_id, spec.partition) in keys
                    if is_gone and await self._park(Storage(topic.name, topic_id, spec.partition)):
                        self._log(spec).info("replica_parked")
            elif await self._park(Storage(topic.name, topic_id)):
                logger = self._logger.bind(topic=topic.name, topic_id=str(topic_id))
                logger.info("topic_parked", partitions=len(topic.partitions))

    async def _close_each(self, replicas: Iterator[Replica]) -> None:
        """One after the other, of those that others have not taken."""
        for replica in replicas:
            await self._replication.leave(replica)
            self._closed.keep(replica.key, replica.saved_high_watermark)
            try:
                await replica.close()
            except OSError as error:
                self._log(replica.spec).error("log_not_closed", reason=str(error))
            else:
                if replica.offline_reason is None:
                    self._closed.whole.add(replica.key)
            self.on_log_closed(replica.log)

    async def _park(self, storage: Storage) -> bool:
        try:
            await self._parking.park(storage)
        except OSError as error:  # the next start finds that it belongs to nothing
            self._logger.error(
                "storage_not_parked", topic=storage.topic, partition=storage.partition, reason=str(error)
            )
            return False
        return True

    async def _park_orphans(self, held: Mapping[TopicId, Collection[int]]) -> None:
        try:
            await self._parking.park_orphans(held)
        except OSError as error:  # the same: what belongs here is served meanwhile
            self._logger.error("orphans_not_parked", reason=str(error))

    def forget(self, removed: Storage) -> None:
        """Forgets what is known of parked storage that is removed."""
        self._closed.forget(removed)
        self._replication.forget(removed.topic_id, removed.partition)

    def _log(self, spec: PartitionSpec) -> FilteringBoundLogger:
        return self._logger.bind(topic=spec.topic, partition=spec.partition)


def _merged(before: HeldTopic, named: HeldTopic) -> HeldTopic:
    """What was known of the topic's partitions, and over that what is said now."""
    partitions = {spec.partition: spec for spec in (*before.partitions, *named.partitions)}
    return replace(named, partitions=tuple(partitions.values()))
