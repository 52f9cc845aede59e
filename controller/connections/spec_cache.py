"""The specs of SPUs and partitions, as the controllers have handed them over, and who is told of what."""

from msgspec import Struct, field

from tailrace.controller.objects.objects import Partition, Spu, keepers_of
from tailrace.controller.state.local_store import PartitionKey
from tailrace.protocol.ids import SpuId


class SpecCache(Struct):
    spus: dict[SpuId, Spu] = field(default_factory=dict)
    partitions: dict[PartitionKey, Partition] = field(default_factory=dict)
    told: dict[SpuId, set[PartitionKey]] = field(default_factory=dict)
    """Each SPU is told of the partitions of which it has a replica or a shelf."""

    def put_partition(self, partition: Partition) -> tuple[SpuId, ...]:
        """The SPUs that it concerns: those that have some of it, and those that had."""
        key = (partition.topic_id, partition.number)
        keepers = keepers_of(partition)
        concerned = dict.fromkeys((*keepers, *self.drop_partition(key)))
        self.partitions[key] = partition
        for spu in keepers:
            self.told.setdefault(spu, set()).add(key)
        return tuple(concerned)

    def drop_partition(self, key: PartitionKey) -> tuple[SpuId, ...]:
        """The SPUs that had some of it."""
        partition = self.partitions.pop(key, None)
        if partition is None:
            return ()
        keepers = keepers_of(partition)
        for spu in keepers:
            told = self.told[spu]
            told.discard(key)
            if not told:
                del self.told[spu]
        return keepers

    def replicas_on(self, spu: SpuId) -> int:
        return sum(spu in self.partitions[key].spec.replicas for key in self.told.get(spu, ()))
