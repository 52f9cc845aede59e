"""The specs of SPUs and partitions that the controllers have handed over, by SPU."""

from msgspec import Struct, field

from tailrace.controller.objects.objects import Partition, Spu, keepers_of
from tailrace.controller.state.local_store import PartitionKey
from tailrace.protocol.ids import SpuId


class SpecCache(Struct):
    """What the Connection Manager knows of SPUs and partitions."""

    spus: dict[SpuId, Spu] = field(default_factory=dict)
    partitions: dict[PartitionKey, Partition] = field(default_factory=dict)
    partitions_by_spu: dict[SpuId, set[PartitionKey]] = field(default_factory=dict)
    """The partitions that should have a replica or a shelf on each SPU."""

    def put_partition(self, partition: Partition) -> tuple[SpuId, ...]:
        """Puts a partition, and returns the SPUs that hold or held a part of it."""
        key = (partition.topic_id, partition.number)
        keepers = keepers_of(partition)
        concerned = dict.fromkeys((*keepers, *self.drop_partition(key)))
        self.partitions[key] = partition
        for spu in keepers:
            self.partitions_by_spu.setdefault(spu, set()).add(key)
        return tuple(concerned)

    def drop_partition(self, key: PartitionKey) -> tuple[SpuId, ...]:
        """Removes a partition, and returns the SPUs that held a part of it."""
        partition = self.partitions.pop(key, None)
        if partition is None:
            return ()
        keepers = keepers_of(partition)
        for spu in keepers:
            keys = self.partitions_by_spu[spu]
            keys.discard(key)
            if not keys:
                del self.partitions_by_spu[spu]
        return keepers

    def replicas_on(self, spu: SpuId) -> int:
        """Returns how many replicas the SPU should have."""
        return sum(spu in self.partitions[key].spec.replicas for key in self.partitions_by_spu.get(spu, ()))
