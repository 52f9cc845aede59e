"""What the controllers of replicas need from their SPU."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import trio
from msgspec import Struct

from tailrace.broker.copies.bulk_copies import BulkCopies, NoBulkCopies
from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.peers.replica_trace import ReplicaTrace
from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replication.messages import ProposeLiveReplicas
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.ids import NO_EPOCH, SpuId
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.promises import Promises


class LiveReplicaReports(Protocol):
    """Reports to the Streaming Controller which replicas are live, for the partitions that this SPU leads."""

    def propose(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> None:
        """Sends the proposal soon and once. The leader repeats it if necessary."""

    def on_failed(self, key: ReplicaKey) -> None:
        """Reports that the storage of the replica failed or its log did not open, so that another replica can lead."""

    def on_changed(self, keys: Iterable[ReplicaKey] | None = None) -> None:
        """Notes that these replicas have changed; None means all of them."""


class RoleContext(Struct, frozen=True):
    """The parts of an SPU that roles use."""

    spu: SpuId
    process: str
    """The process incarnation. A leader epoch belongs to one process."""
    store_incarnation: str
    """The store incarnation, which stays the same while no stored data is lost."""
    promises: Promises
    peers: PeerLinks
    live_replicas: LiveReplicaReports
    cluster: Cluster
    deadlines: Deadlines
    nursery: trio.Nursery
    on_appended: Callable[[Replica], None]
    """Reports an append. At the end of the turn it triggers the flush policy and wakes readers."""
    end_turn: Callable[[], None]
    """Ends the turn of a link: sends what was appended and committed."""
    now: Callable[[], float]
    """Trio's time, from the clock itself, because each message needs it."""
    write_high_watermarks: Callable[[], Awaitable[None]]
    """Makes the high watermarks of all replicas durable. Raises OSError."""
    checkpoint_is_ahead_of: Callable[[Replica], bool]
    """Whether the checkpoint has a larger high watermark than the replica."""
    on_unreadable: Callable[[ReplicaKey, str], None]
    """Reports that a replica's log cannot be read, and why. The replica goes offline soon."""
    on_suspected: Callable[[Replica, int], None]
    """Reports that a replica's log may be damaged from this offset on."""
    metrics: BrokerMetrics
    logger: FilteringBoundLogger
    copies: BulkCopies = NoBulkCopies()
    trace: ReplicaTrace | None = None

    def logger_of(self, replica: Replica) -> FilteringBoundLogger:
        """Returns a logger with topic and partition. It is made only when needed, because there are thousands of
        replicas."""
        return self.logger.bind(topic=replica.topic, partition=replica.partition)

    def is_in_doubt(self, spec: PartitionSpec) -> bool:
        """Returns whether the replica may lack what it acknowledged.

        A store that has never promised anything, and is not known to have everything, may have lost its disk.
        """
        key = spec.topic_id, spec.partition
        known = spec.live_incarnations.get(self.spu) == self.store_incarnation
        return self.promises.is_in_doubt(key) or (self.promises.epoch(key) == NO_EPOCH and not known)

    def note_failed_disk(self) -> None:
        """Notes that a disk has failed. Until the next start has said so, all others rely on what this store
        acknowledged."""
        self.nursery.start_soon(self._note_failed_disk)

    async def _note_failed_disk(self) -> None:
        try:
            await self.promises.note_failed_disk()
        except OSError as error:
            self.logger.error("failed_disk_not_noted", reason=str(error))
