"""The registry of all replicas on this SPU; a lookup that fails raises the right Kafka error."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.storage.directory.checkpoints import ReplicaKey

from .replica import Replica


class Damage(NamedTuple):
    """Why a replica's log did not open, and the leader epoch at which opening was tried; NO_EPOCH if it was not really
    tried."""

    epoch: Epoch
    reason: str


class ReplicaRegistry:
    """All replicas on this SPU. A lookup that fails raises the error for the client."""

    def __init__(self, spu: SpuId, cluster: Cluster) -> None:
        self._spu = spu
        self._cluster = cluster
        self._by_key: dict[tuple[str | UUID, int], Replica] = {}
        """Each replica twice: by its topic's name and by its topic's id."""
        self._damaged: dict[ReplicaKey, Damage] = {}
        self.damaged: Mapping[ReplicaKey, Damage] = MappingProxyType(self._damaged)
        """Replicas that should be on this SPU, but whose logs did not open."""
        self.role_watchers: dict[str, Callable[[Replica], None]] = {}
        """By topic: a callback that learns which of the topic's replicas on this SPU lead."""

    def __iter__(self) -> Iterator[Replica]:
        return (replica for (name, _), replica in self._by_key.items() if isinstance(name, str))

    def add(self, replica: Replica) -> None:
        self._by_key[replica.spec.topic, replica.spec.partition] = replica
        self._by_key[replica.spec.topic_id, replica.spec.partition] = replica
        self._damaged.pop(replica.key, None)
        watcher = self.role_watchers.get(replica.topic)
        if watcher is not None:
            replica.watch_role(watcher)

    def add_damaged(self, spec: PartitionSpec, reason: str, *, was_tried: bool = True) -> None:
        """Notes a replica whose log did not open. Clients get a storage error."""
        self._damaged[spec.topic_id, spec.partition] = Damage(spec.epoch if was_tried else NO_EPOCH, reason)

    def remove(self, spec: PartitionSpec) -> Replica | None:
        """Forgets the replica and returns it."""
        self._damaged.pop((spec.topic_id, spec.partition), None)
        replica = self._by_key.pop((spec.topic_id, spec.partition), None)
        if replica is not None and self._by_key.get((spec.topic, spec.partition)) is replica:
            del self._by_key[spec.topic, spec.partition]  # the name may belong to a newer topic already
        return replica

    def find(self, topic: str | UUID, partition: int) -> Replica | None:
        """Returns the replica, or None if it is not on this SPU."""
        return self._by_key.get((topic, partition))

    def leading(self, topic: str | UUID, partition: int, epoch: int = NO_EPOCH) -> Replica:
        """Returns the replica that leads the partition; `epoch` is the leader epoch that the client knows."""
        replica = self._by_key.get((topic, partition))
        if replica is not None and replica.is_leader and replica.offline_reason is None and epoch == NO_EPOCH:
            return replica  # the common case, without another call
        replica = self.reading(topic, partition, epoch)
        if not replica.is_leader:
            raise replica.not_leader()
        return replica

    def reading(self, topic: str | UUID, partition: int, epoch: int = NO_EPOCH) -> Replica:
        """Returns the replica, leading or not, for readers that may read from either."""
        replica = self._by_key.get((topic, partition))
        if replica is None:
            raise self._not_here(topic, partition)
        if replica.offline_reason is not None:
            raise replica.storage_error()
        if epoch != NO_EPOCH and epoch != replica.spec.epoch:
            raise replica.wrong_epoch(epoch)
        return replica

    def _not_here(self, topic: str | UUID, partition: int) -> KafkaError:
        if isinstance(topic, str):
            known = self._cluster.topics.get(topic)
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            known = self._cluster.topic_by_id(topic)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        if known is None:
            return KafkaError(missing, f"there is no topic {topic}")
        if not 0 <= partition < len(known.partitions):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{known.name} has no partition {partition}")
        damage = self._damaged.get((known.id, partition))
        if damage is not None:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the replica is offline: {damage.reason}")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{known.name}-{partition} is not on this SPU")
