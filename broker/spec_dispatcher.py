"""Turns specs into running replicas: what the source of specs says should be here, is here after the call.

A replica's storage is kept when its topic goes: it is parked under the topic's id for a while, so that a deleted topic
can come back, and a new topic of the same name, which has another id, starts empty.
"""

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.runtime.files import Files
from tailrace.storage import layout
from tailrace.storage.checkpoints import load_high_watermarks
from tailrace.storage.log import Log
from tailrace.storage.open_files import OpenFiles

from .metrics import BrokerMetrics
from .parking import Parking
from .replicas import Replica, Replicas
from .topic_settings import TopicSettings

OPENED_IN_A_ROW = 50
"""A topic of thousands of partitions must not keep clients waiting: after so many it is their turn."""


class SpecDispatcher:
    def __init__(
        self,
        spu: SpuId,
        data_directory: str,
        files: Files,
        replicas: Replicas,
        parking: Parking,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
        *,
        clean: bool,
    ) -> None:
        self._spu = spu
        self._data_directory = data_directory
        self._files = files
        self._replicas = replicas
        self._metrics = metrics
        self._logger = logger
        self._parking = parking
        self._open_files = OpenFiles(files)
        self._clean = clean
        """Whether whoever wrote the logs last closed them all."""
        self._topics: dict[TopicId, TopicSpec] = {}
        self._high_watermarks = load_high_watermarks(files, data_directory)

    # what the source of specs says

    async def apply_topic(self, topic: TopicSpec, settings: TopicSettings) -> None:
        """The topic is as the spec has it: its replicas that belong here run, with its settings."""
        if topic.id not in self._topics:
            self._parking.unpark(topic.name, topic.id)
        self._topics[topic.id] = topic
        opened = 0
        for spec in topic.partitions:
            if self._spu in spec.replicas:
                replica = self._replicas.find(spec.topic_id, spec.partition)
                if replica is not None:
                    replica.use_spec(spec)
                    replica.use_settings(settings)
                    continue
                self._open(spec, settings)
                opened += 1
                if opened % OPENED_IN_A_ROW == 0:
                    await trio.lowlevel.checkpoint()

    async def remove_topic(self, topic_id: TopicId) -> None:
        """The topic is gone: its replicas stop, and their storage is parked."""
        topic = self._topics.pop(topic_id)
        gone = self._replicas.remove_topic(topic)
        for replica in gone:
            replica.refuse_waiters(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} was deleted"))
        for replica in gone:
            await replica.close()
        await self._parking.park(topic.name, topic_id)
        self._logger.info("topic_parked", topic=topic.name, topic_id=str(topic_id), partitions=len(topic.partitions))

    async def on_all_applied(self) -> None:
        """All topics that exist have been applied: what else lies here belongs to none of them."""
        self._clean = False  # storage that is reattached from now on has no mark that speaks for it
        await self._parking.park_orphans(self._topics)

    def _open(self, spec: PartitionSpec, settings: TopicSettings) -> None:
        directory = layout.replica_directory(self._data_directory, spec.topic, spec.topic_id, spec.partition)
        logger = self._logger.bind(topic=spec.topic, partition=spec.partition)
        clean = self._clean or not self._files.list(directory)
        try:
            log = Log.open(self._files, directory, settings.log, clean=clean, open_files=self._open_files)
        except OSError as error:
            logger.error("replica_did_not_open", reason=str(error))
            self._replicas.add_damaged(spec, str(error))
            return
        report = log.recovery
        if not report.was_clean:
            self._metrics.recovered_replicas += 1
            self._metrics.truncated_bytes += report.cut_bytes
            self._metrics.rebuilt_indexes += report.indexes_rebuilt
        for event in report.events:
            logger.warning("log_recovered", what=event)
        # With no other replica everything in the log is committed; else only what was known to be so.
        alone = spec.live_replicas == (self._spu,)
        known = self._high_watermarks.get((spec.topic_id, spec.partition), log.log_start)
        self._replicas.add(Replica(self._spu, spec, log, settings, log.log_end if alone else min(known, log.log_end)))
