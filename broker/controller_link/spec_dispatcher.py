"""Creates, opens, parks and removes replicas so that this SPU holds what its specs say.

The storage of a removed replica is parked for a while, so that it can come back. The storage of a deleted topic is
parked under the topic's id: a new topic with the same name has another id and starts empty.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import trio
from msgspec.structs import replace

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
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.log.log import Log

from .held_specs import HeldSpecs, HeldTopic
from .replica_opener import ReplicaOpener
from .spec_messages import with_known_objects

APPLIED_IN_A_ROW = 5
"""How many partitions are applied before other tasks run, so that clients do not wait for thousands."""
REMOVED_IN_A_ROW = 50
"""How many partitions are removed before other tasks run."""
CLOSES_AT_ONCE = 16
"""How many logs are closed at once. Each waits for its disk, and all other specs wait for the last one."""
_SHARED_SETTINGS_MAX = 1000
"""How many different topic settings are cached."""


class OnShelved(Protocol):
    """Applies the specs of the shelves on this SPU."""

    def __call__(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], /, *, is_full: bool) -> None:
        """Applies specs. Returns at once and raises nothing, because the work is done later.

        `specs` are the partitions with a shelf that this SPU stores or has to fill. `removed` are partitions without a
        shelf on this SPU. `is_full` means that it stores no shelves except those of `specs`.
        """


def _ignore_shelves(specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], /, *, is_full: bool) -> None:
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
        on_shelved: OnShelved = _ignore_shelves,
    ) -> None:
        """`repair` is passed to `UnreadableLogs`. `on_shelved` is called with each message, before its replicas are
        opened or changed."""
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
        """The settings for each set of topic configs, shared by topics. Cleared when the configs of the SPU change."""
        self._settings_in_use: dict[TopicId, TopicSettings] = {}
        """The settings that the replicas of each topic have."""
        self._applying = trio.Lock()
        self._in_a_row = 0
        self._on_shelved = on_shelved
        self.has_applied_all = False
        """Whether full specs have been applied. Before, local files may belong to topics that are not known yet."""

    async def apply(self, specs: HeldSpecs) -> None:
        """Applies what can be applied, even if the caller is cancelled. Raises KafkaError for the first failure."""
        refused: list[KafkaError] = []
        async with self._applying:
            with trio.CancelScope(shield=True):
                # Removals come first, because a new topic may have the name of a deleted one.
                await self._remove(self._removals(specs))
                self._on_shelved(specs.shelved, specs.unshelved, is_full=specs.is_full)
                topics = {topic.id: topic for topic in specs.topics}
                if self._use_broker_configs(specs, refused):
                    topics = self._topics | topics
                for topic in topics.values():
                    await self._apply_topic(topic, refused)
                if specs.is_full and not self.has_applied_all:
                    # The clean-shutdown mark does not hold for storage that comes back later.
                    self._closed.clean.clear()
                    # Specs that could not be applied count, too: they may be applied another time.
                    held = {topic.id: {spec.partition for spec in topic.partitions} for topic in specs.topics}
                    await self._park_orphans(held)
                    self.has_applied_all = True
        if refused:
            raise refused[0]

    # configs

    def _use_broker_configs(self, specs: HeldSpecs, refused: list[KafkaError]) -> bool:
        """Applies the dynamic configs of the SPU. Returns whether they have changed."""
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

    # adding and changing replicas

    async def _apply_topic(self, named: HeldTopic, refused: list[KafkaError]) -> None:
        before = self._topics.get(named.id)
        if before is None:
            with suppress(OSError):  # each of its replicas fails with the same error, and does not open
                await self._parking.unpark(Storage(named.name, named.id))
        try:
            settings = self._settings_of(named)
        except KafkaError as error:
            self._logger.error("topic_not_applied", topic=named.name, reason=str(error))
            refused.append(error)
            return
        topic = named if before is None else _merged(before, named)
        self._topics[topic.id] = topic
        affected = topic.partitions
        if self._settings_in_use.get(topic.id) is settings:
            affected = named.partitions  # usually a few of thousands
        self._settings_in_use[topic.id] = settings
        self._logger.debug("specs_dispatched", topic=topic.name, partitions=len(affected))
        missing = [spec.partition for spec in affected if self._replicas.find(topic.id, spec.partition) is None]
        untouched = self._parking.untouched(Storage(topic.name, topic.id), missing) if missing else ()
        for spec in affected:
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
        """Returns whether to try to open the log: not again if it did not open in the same epoch.

        A log that did not open is tried once per election, and when it has been repaired. A log for which no more files
        could be opened is registered without an epoch, so that it is tried with each message that names it.
        """
        damage = self._replicas.damaged.get((spec.topic_id, spec.partition))
        return damage is None or damage.epoch != spec.epoch

    async def _open(self, spec: PartitionSpec, settings: TopicSettings, *, is_new: bool = False) -> None:
        await self._opener.open(spec, settings, is_new=is_new, is_starting=not self.has_applied_all)

    async def on_readable(self, key: ReplicaKey) -> None:
        """Opens a replica that did not open before, because its log was repaired."""
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
        """Closes a replica in use whose log has become unreadable, and has the log repaired."""
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
                self._unreadable.add(again, damaged_from, was_clean=False)

    def on_log_closed(self, log: Log) -> None:
        """Implements `LogOwner`."""
        self._opener.on_log_closed(log)

    # removing replicas

    def _removals(self, specs: HeldSpecs) -> list[PartitionSpec]:
        if specs.is_full:
            named = set(specs.named())
            held = (spec for topic in self._topics.values() for spec in topic.partitions)
            return [spec for spec in held if (spec.topic_id, spec.partition) not in named]
        removed = set(specs.removed)
        topics = dict.fromkeys(topic_id for topic_id, _ in specs.removed if topic_id in self._topics)
        affected = (spec for topic_id in topics for spec in self._topics[topic_id].partitions)
        return [spec for spec in affected if (spec.topic_id, spec.partition) in removed]

    async def _remove(self, removals: list[PartitionSpec]) -> None:
        """Stops replicas and parks their storage. A topic without local partitions is parked as a whole."""
        replicas: list[Replica] = []
        for number, spec in enumerate(removals, 1):
            if (replica := self._replicas.remove(spec)) is not None:
                # At once, because a checkpoint of high watermarks would find it nowhere else.
                self._closed.keep(replica.key, replica.saved_high_watermark)
                reason = f"{replica.topic}-{replica.partition} was deleted or moved to other SPUs"
                replica.refuse_waiters(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason))
                replicas.append(replica)
            if number % REMOVED_IN_A_ROW == 0:
                await trio.lowlevel.checkpoint()
        to_close = iter(replicas)
        async with trio.open_nursery() as nursery:
            for _ in range(min(CLOSES_AT_ONCE, len(replicas))):
                nursery.start_soon(self._close_each, to_close)
            for spec in removals:
                await self._unreadable.give_back((spec.topic_id, spec.partition))
        keys = {(spec.topic_id, spec.partition) for spec in removals}
        for topic_id in dict.fromkeys(spec.topic_id for spec in removals):
            topic = self._topics.pop(topic_id)
            self._settings_in_use.pop(topic_id, None)
            left = tuple(spec for spec in topic.partitions if (topic_id, spec.partition) not in keys)
            if left:
                self._topics[topic_id] = replace(topic, partitions=left)
                for spec in topic.partitions:
                    is_removed = (topic_id, spec.partition) in keys
                    if is_removed and await self._park(Storage(topic.name, topic_id, spec.partition)):
                        self._log(spec).info("replica_parked")
            elif await self._park(Storage(topic.name, topic_id)):
                logger = self._logger.bind(topic=topic.name, topic_id=str(topic_id))
                logger.info("topic_parked", partitions=len(topic.partitions))

    async def _close_each(self, replicas: Iterator[Replica]) -> None:
        """Closes replicas one after the other. Several tasks share the iterator."""
        for replica in replicas:
            await self._replication.leave(replica)
            self._closed.keep(replica.key, replica.saved_high_watermark)
            try:
                await replica.close()
            except OSError as error:
                self._log(replica.spec).error("log_not_closed", reason=str(error))
            else:
                if replica.offline_reason is None:
                    self._closed.clean.add(replica.key)
            self.on_log_closed(replica.log)

    async def _park(self, storage: Storage) -> bool:
        try:
            await self._parking.park(storage)
        except OSError as error:  # the next start parks it, because it belongs to no topic
            self._logger.error(
                "storage_not_parked", topic=storage.topic, partition=storage.partition, reason=str(error)
            )
            return False
        return True

    async def _park_orphans(self, held: Mapping[TopicId, Collection[int]]) -> None:
        try:
            await self._parking.park_orphans(held)
        except OSError as error:  # the next start parks them; replicas are served meanwhile
            self._logger.error("orphans_not_parked", reason=str(error))

    def forget(self, removed: Storage) -> None:
        """Forgets what is known about parked storage that was removed."""
        self._closed.forget(removed)
        self._replication.forget(removed.topic_id, removed.partition)

    def _log(self, spec: PartitionSpec) -> FilteringBoundLogger:
        return self._logger.bind(topic=spec.topic, partition=spec.partition)


def _merged(before: HeldTopic, named: HeldTopic) -> HeldTopic:
    """Returns the known partitions of the topic, updated with those of the message."""
    updated = with_known_objects(named.partitions, before.partitions)
    partitions = {spec.partition: spec for spec in (*before.partitions, *updated)}
    return replace(named, partitions=tuple(partitions.values()))
