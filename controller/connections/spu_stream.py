"""The stream to one SPU: remembers what has to be sent, and a task that sends it.

Only keys are remembered, and messages are made at the moment of sending. So a slow SPU delays no one, its memory is
bounded by the number of keys, and it gets the newest state once instead of its history.
"""

from collections.abc import Mapping

import trio
from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import NO_LEADER
from tailrace.controller.objects.objects import Partition, Spu
from tailrace.controller.sc_metrics import ScMetrics
from tailrace.controller.state.cluster_mirror import MirrorChange
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.apply_metadata import ApplyMetadataRequest
from tailrace.protocol.internal.apply_specs import ApplySpecsRequest
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.server.private_link import LinkClosed, PrivateLink

from .spec_cache import SpecCache
from .spu_messages import changed_metadata, specs_request, whole_metadata


class Registered(Struct, frozen=True):
    """The process of an SPU that has registered."""

    spu: SpuId
    incarnation: str
    software_version: str
    since: float


class SpuStream:
    """The specs and the metadata for one SPU."""

    def __init__(
        self,
        cache: SpecCache,
        store: LocalStore,
        cluster: Cluster,
        unreadable: Mapping[str, int],
        metrics: ScMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        self._cache = cache
        self._store = store
        self._cluster = cluster
        self._unreadable = unreadable
        self._metrics = metrics
        self._logger = logger
        self.registered: Registered | None = None
        """The SPU's process, or None until it was accepted."""
        self.sent_version = -1
        """The version of the mirror that the SPU has confirmed."""
        self.is_carrying_out_specs = False
        """Whether the SPU has received specs and not responded to them yet."""
        self.owes_response = False
        """Whether the SPU has received specs or metadata and not responded to them yet."""
        self._is_everything_due = True
        self._are_configs_due = False
        self._partitions: set[PartitionKey] = set()
        self._spus: set[SpuId] = set()
        self._topics: dict[TopicId, set[int] | None] = {}
        """The topics to send, each with its changed partitions, or None for the whole topic."""
        self._groups: set[str] = set()
        self._security: set[tuple[str, str]] = set()
        """The kinds and keys of the records to send."""
        self._due = trio.Event()

    # queueing

    def accept(self, registered: Registered) -> None:
        """Starts the stream, when the SPU has registered."""
        self.registered = registered
        self._due.set()

    def queue_everything(self) -> None:
        """Queues all specs and the whole mirror."""
        self._is_everything_due = True
        self._wake()

    def queue_partition(self, key: PartitionKey) -> None:
        """Queues the spec of a partition, or its removal."""
        self._partitions.add(key)
        self._wake()

    def queue_configs(self) -> None:
        """Queues the settings of the SPU itself: its size and its broker configs."""
        self._are_configs_due = True
        self._wake()

    def queue_metadata(self, change: MirrorChange) -> None:
        """Queues a change of the mirror."""
        self._spus.update(spu.id for spu in change.spus)
        self._spus.update(change.removed_spus)
        for topic_id in change.removed_topics:
            self._topics[topic_id] = None
        for topic in change.topics:
            self._queue_topic(topic.id, change.partitions.get(topic.id))
        self._groups.update(change.groups)
        self._security.update(change.security)
        self._wake()

    def _queue_topic(self, topic_id: TopicId, partitions: frozenset[int] | None) -> None:
        waiting = self._topics.setdefault(topic_id, set())
        if partitions is None or waiting is None:
            self._topics[topic_id] = None
        else:
            waiting |= partitions

    @property
    def is_up_to_date(self) -> bool:
        """Whether the SPU has confirmed everything."""
        return self.sent_version == self._cluster.version and not self._due.is_set()

    def _wake(self) -> None:
        if self.registered is not None:
            self._due.set()

    # sending

    async def push(self, link: PrivateLink) -> None:
        """Sends what is queued until the link has closed."""
        try:
            while True:
                await self._due.wait()
                # Both are made at the same moment, so no client hears of a partition that the SPU does not hold yet.
                specs, metadata = self._take()
                self.owes_response = True
                if specs is not None:
                    await self._send_specs(link, specs)
                if metadata is not None:
                    await link.ask(metadata)
                    self._metrics.pushed_metadata += 1
                    self.sent_version = metadata.version
                self.owes_response = False
        except LinkClosed:
            return
        except KafkaError as error:
            self._logger.error("push_failed", spu=self._spu_id, reason=error.message)
            link.close(error.message)

    async def _send_specs(self, link: PrivateLink, specs: ApplySpecsRequest) -> None:
        self.is_carrying_out_specs = True
        response = await link.ask(specs)
        self.is_carrying_out_specs = False
        self._metrics.pushed_specs += 1
        if response.error_code != ErrorCode.NONE:
            self._metrics.refused_specs += 1
            self._logger.warning("specs_refused", spu=self._spu_id, reason=response.error_message)

    @property
    def _spu_id(self) -> SpuId:
        assert self.registered is not None
        return self.registered.spu

    def _take(self) -> tuple[ApplySpecsRequest | None, ApplyMetadataRequest | None]:
        spu = self._cache.spus.get(self._spu_id)
        specs = None if spu is None else self._take_specs(spu)
        metadata = self._take_metadata()
        self._is_everything_due = False
        self._are_configs_due = False
        self._partitions.clear()
        self._spus.clear()
        self._topics.clear()
        self._groups.clear()
        self._security.clear()
        self._due = trio.Event()
        return specs, metadata

    def _take_specs(self, spu: Spu) -> ApplySpecsRequest | None:
        held = self._cache.partitions_by_spu.get(spu.spec.id, set())
        if self._is_everything_due:
            # A partition may be missing only because its object is damaged. The SPU must not remove its log then.
            is_full = not self._unreadable
            return specs_request(spu, self._store, map(self._as_sent, held), (), is_full=is_full)
        if not self._partitions and not self._are_configs_due:
            return None
        changed = map(self._as_sent, self._partitions & held)
        return specs_request(spu, self._store, changed, sorted(self._partitions - held), is_full=False)

    def _as_sent(self, key: PartitionKey) -> Partition:
        """Returns a partition as this process of the SPU may have it: it leads only if it was elected itself.

        If an earlier process of the SPU was elected, records of its epoch may have been lost with the page cache. New
        records must not take their places in the same epoch.
        """
        assert self.registered is not None
        partition = self._cache.partitions[key]
        status = partition.status
        if status.leader == self.registered.spu and status.incarnation != self.registered.incarnation:
            return replace(partition, status=replace(status, leader=NO_LEADER))
        return partition

    def _take_metadata(self) -> ApplyMetadataRequest | None:
        if self._is_everything_due:
            return whole_metadata(self._cluster, self._store, unreadable=self._unreadable)
        if self._spus or self._topics or self._groups or self._security or self.sent_version != self._cluster.version:
            return changed_metadata(self._cluster, self._spus, self._topics, self._groups, self._security)
        return None
