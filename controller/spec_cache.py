"""The specs of SPUs and partitions, as the controllers have handed them over, and who holds what."""

from msgspec import Struct, field

from tailrace.protocol.ids import SpuId

from .local_store import PartitionKey
from .objects import Partition, Spu


class SpecCache(Struct):
    spus: dict[SpuId, Spu] = field(default_factory=dict)
    partitions: dict[PartitionKey, Partition] = field(default_factory=dict)
    held: dict[SpuId, set[PartitionKey]] = field(default_factory=dict)

    def put_partition(self, partition: Partition) -> tuple[SpuId, ...]:
        """The SPUs that it concerns: those that hold it, and those that did."""
        key = (partition.topic_id, partition.number)
        concerned = dict.fromkeys((*partition.spec.replicas, *self.drop_partition(key)))
        self.partitions[key] = partition
        for spu in partition.spec.replicas:
            self.held.setdefault(spu, set()).add(key)
        return tuple(concerned)

    def drop_partition(self, key: PartitionKey) -> tuple[SpuId, ...]:
        """The SPUs that held it."""
        partition = self.partitions.pop(key, None)
        if partition is None:
            return ()
        for spu in partition.spec.replicas:
            held = self.held[spu]
            held.discard(key)
            if not held:
                del self.held[spu]
        return partition.spec.replicas
