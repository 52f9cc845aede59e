"""What every replica's part in replication needs of the SPU around it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import trio
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

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
from tailrace.storage.directory.checkpoints import ReplicaKey
from tailrace.storage.directory.promises import Promises


class LiveReplicaReports(Protocol):
    """Reports to the Streaming Controller which replicas are live, for the partitions that this SPU leads."""

    def propose(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> None:
        """Sends the proposal, and repeats it until the Streaming Controller has answered it."""

    def give_up(self, key: ReplicaKey) -> None:
        """Forgets the proposals of a replica."""

    def on_changed(self, keys: Iterable[ReplicaKey] | None = None) -> None:
        """Notes that these replicas have changed; None means all of them."""


class RoleContext(Struct, frozen=True):
    spu: SpuId
    process: str
    """This process; a leader epoch is given to one."""
    store_incarnation: str
    """Stays the same as long as nothing was lost of what is stored here."""
    promises: Promises
    peers: PeerLinks
    live_replicas: LiveReplicaReports
    cluster: Cluster
    deadlines: Deadlines
    nursery: trio.Nursery
    on_appended: Callable[[Replica], None]
    """The flush policy, and whoever waits for more to read, hear of it at the end of the turn."""
    end_turn: Callable[[], None]
    now: Callable[[], float]
    """Trio's time, from the clock itself: it is asked for with each message."""
    write_high_watermarks: Callable[[], Awaitable[None]]
    """Of all replicas, to the disk. Raises OSError."""
    checkpoint_is_ahead_of: Callable[[Replica], bool]
    """Whether what is written down there is more than is known of the replica."""
    on_unreadable: Callable[[ReplicaKey, str], None]
    """That replica's log cannot be read, and why: soon it is offline."""
    on_suspected: Callable[[Replica, int], None]
    """What its log holds from this offset on may be damaged."""
    metrics: BrokerMetrics
    logger: FilteringBoundLogger
    copies: BulkCopies = NoBulkCopies()
    trace: ReplicaTrace | None = None

    def logger_of(self, replica: Replica) -> FilteringBoundLogger:
        """Made where there is something to say: there are thousands of replicas."""
        return self.logger.bind(topic=replica.topic, partition=replica.partition)

    def is_in_doubt(self, spec: PartitionSpec) -> bool:
        """Whether the replica here may lack what it acknowledged. A store that has never promised anything, and is not
        among those that are known to have it all, may be one that has lost its disk."""
        key = spec.topic_id, spec.partition
        known = spec.live_incarnations.get(self.spu) == self.store_incarnation
        return self.promises.is_in_doubt(key) or (self.promises.epoch(key) == NO_EPOCH and not known)

    def note_failed_disk(self) -> None:
        """Until the next start has said so itself, everybody takes this store for one that has what it acknowledged."""
        self.nursery.start_soon(self._note_failed_disk)

    async def _note_failed_disk(self) -> None:
        try:
            await self.promises.note_failed_disk()
        except OSError as error:
            self.logger.error("failed_disk_not_noted", reason=str(error))
