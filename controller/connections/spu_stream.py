"""The stream to one SPU: what it has not been told yet, and the task that tells it.

Only what is to be told is remembered, by key; the words are made at the moment of sending. So a slow SPU holds nobody
up, costs no more memory than there are keys, and when it is ready hears the newest state once instead of its history.
"""

from collections.abc import Mapping

import trio
from msgspec import Struct
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

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
from tailrace.server.private_link import LinkClosed, PrivateLink

from .spec_cache import SpecCache
from .spu_messages import changed_metadata, specs_request, whole_metadata


class Registered(Struct, frozen=True):
    """The process at the other end."""

    spu: SpuId
    incarnation: str
    software_version: str
    since: float


class SpuStream:
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
        """None until the SPU was accepted."""
        self.sent_version = -1
        """Of the metadata that the SPU has confirmed."""
        self.is_carrying_out_specs = False
        """It has been sent some, and has not answered."""
        self.owes_response = False
        """To these, or to the metadata after them."""
        self._is_full_due = True
        self._are_configs_due = False
        self._partitions: set[PartitionKey] = set()
        self._spus: set[SpuId] = set()
        self._topics: dict[TopicId, set[int] | None] = {}
        """Each with its partitions that have changed; None: all is to be told."""
        self._groups: set[str] = set()
        self._due = trio.Event()

    # what is to be told

    def accept(self, registered: Registered) -> None:
        self.registered = registered
        self._due.set()

    def queue_everything(self) -> None:
        self._is_full_due = True
        self._wake()

    def queue_partition(self, key: PartitionKey) -> None:
        self._partitions.add(key)
        self._wake()

    def queue_configs(self) -> None:
        """What is set for the SPU itself: its size, its broker configs."""
        self._are_configs_due = True
        self._wake()

    def queue_metadata(self, change: MirrorChange) -> None:
        self._spus.update(spu.id for spu in change.spus)
        self._spus.update(change.removed_spus)
        for topic_id in change.removed_topics:
            self._topics[topic_id] = None
        for topic in change.topics:
            self._queue_topic(topic.id, change.partitions.get(topic.id))
        self._groups.update(change.groups)
        self._wake()

    def _queue_topic(self, topic_id: TopicId, partitions: frozenset[int] | None) -> None:
        waiting = self._topics.setdefault(topic_id, set())
        if partitions is None or waiting is None:
            self._topics[topic_id] = None
        else:
            waiting |= partitions

    @property
    def is_up_to_date(self) -> bool:
        return self.sent_version == self._cluster.version and not self._due.is_set()

    def _wake(self) -> None:
        if self.registered is not None:
            self._due.set()

    # the telling

    async def push(self, link: PrivateLink) -> None:
        """Until the link has closed."""
        try:
            while True:
                await self._due.wait()
                # Both are made at the same moment, so no client hears of what the SPU does not hold yet.
                specs, metadata = self._take()
                self.owes_response = True
                if specs is not None:
                    await self._push_specs(link, specs)
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

    async def _push_specs(self, link: PrivateLink, specs: ApplySpecsRequest) -> None:
        self.is_carrying_out_specs = True
        answer = await link.ask(specs)
        self.is_carrying_out_specs = False
        self._metrics.pushed_specs += 1
        if answer.error_code != ErrorCode.NONE:
            self._metrics.refused_specs += 1
            self._logger.warning("specs_refused", spu=self._spu_id, reason=answer.error_message)

    @property
    def _spu_id(self) -> SpuId:
        assert self.registered is not None
        return self.registered.spu

    def _take(self) -> tuple[ApplySpecsRequest | None, ApplyMetadataRequest | None]:
        spu = self._cache.spus.get(self._spu_id)
        specs = None if spu is None else self._take_specs(spu)
        metadata = self._take_metadata()
        self._is_full_due = False
        self._are_configs_due = False
        self._partitions.clear()
        self._spus.clear()
        self._topics.clear()
        self._groups.clear()
        self._due = trio.Event()
        return specs, metadata

    def _take_specs(self, spu: Spu) -> ApplySpecsRequest | None:
        told = self._cache.told.get(spu.spec.id, set())
        if self._is_full_due:
            # A partition may be missing only because its object was damaged; its log must not be given up for that.
            is_full = not self._unreadable
            return specs_request(spu, self._store, map(self._held, told), (), is_full=is_full)
        if not self._partitions and not self._are_configs_due:
            return None
        changed = map(self._held, self._partitions & told)
        return specs_request(spu, self._store, changed, sorted(self._partitions - told), is_full=False)

    def _held(self, key: PartitionKey) -> Partition:
        """A partition as this process may have it: it leads only if it was elected itself.

        What led before it may have lost records of that epoch with its page cache; others must not take their places.
        """
        assert self.registered is not None
        partition = self._cache.partitions[key]
        status = partition.status
        if status.leader == self.registered.spu and status.incarnation != self.registered.incarnation:
            return replace(partition, status=replace(status, leader=NO_LEADER))
        return partition

    def _take_metadata(self) -> ApplyMetadataRequest | None:
        if self._is_full_due:
            return whole_metadata(self._cluster, self._store, is_damaged=bool(self._unreadable))
        if self._spus or self._topics or self._groups or self.sent_version != self._cluster.version:
            return changed_metadata(self._cluster, self._spus, self._topics, self._groups)
        return None
