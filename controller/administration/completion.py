"""When what somebody asked for has happened: questions to the Local Store and the mirror, asked anew as they change."""

from msgspec import Struct

from tailrace.cluster.cluster import Cluster
from tailrace.controller.objects.objects import Partition, PartitionResolution, SpuGroupResolution, TopicResolution
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import Epoch, SpuId, TopicId

from .planned_changes import Condition

_UNDECIDED = (TopicResolution.NONE, TopicResolution.INIT, TopicResolution.PENDING)


class CompletionConditions(Struct, frozen=True):
    local: LocalStore
    cluster: Cluster
    """The mirror that clients are answered from."""

    def topic_served(self, topic_id: TopicId, partitions: int) -> Condition:
        """Every partition has a leader that reported in; one that nobody online holds is not waited for."""
        left = list(range(partitions))

        def reached() -> bool:
            topic = self.local.topics_by_id.get(topic_id)
            if topic is None:
                return True  # deleted meanwhile
            if topic.status.resolution is not TopicResolution.PROVISIONED:
                return False
            while left:
                partition = self.local.partitions.get((topic_id, left[-1]))
                if partition is None or not self._has_settled(partition):
                    return False
                left.pop()  # what is reached once need not be looked at again with each event
            mirrored = self.cluster.topic_by_id(topic_id)
            return mirrored is not None and len(mirrored.partitions) >= partitions

        return reached

    def topic_decided(self, topic_id: TopicId) -> Condition:
        """It has its rows, or a reason why it has none."""

        def reached() -> bool:
            topic = self.local.topics_by_id.get(topic_id)
            return topic is None or topic.status.resolution not in _UNDECIDED

        return reached

    def topic_settled(self, topic_id: TopicId, partitions: int) -> Condition:
        """It is served, or there is a reason why it is not provisioned."""
        decided, served = self.topic_decided(topic_id), self.topic_served(topic_id, partitions)

        def reached() -> bool:
            topic = self.local.topics_by_id.get(topic_id)
            is_provisioned = topic is not None and topic.status.resolution is TopicResolution.PROVISIONED
            return served() if is_provisioned else decided()

        return reached

    def partition_led(self, partition: Partition, epoch: Epoch) -> Condition:
        """It has a leader that was elected then or later, and has reported; or it is gone."""
        key = (partition.topic_id, partition.number)

        def reached() -> bool:
            now = self.local.partitions.get(key)
            return now is None or (now.status.epoch >= epoch and now.status.resolution is PartitionResolution.ONLINE)

        return reached

    def topic_gone(self, topic_id: TopicId) -> Condition:
        return lambda: topic_id not in self.local.topics_by_id and self.cluster.topic_by_id(topic_id) is None

    def spu_online(self, spu_id: SpuId) -> Condition:
        return lambda: spu_id not in self.local.spus or self.local.spus[spu_id].is_online

    def group_decided(self, name: str) -> Condition:
        """Its ids are reserved, or there is a reason why they cannot be."""

        def reached() -> bool:
            group = self.local.spu_groups.get(name)
            return group is None or group.status.resolution is not SpuGroupResolution.INIT

        return reached

    def group_running(self, name: str) -> Condition:
        """All its SPUs are online, or it has none because it is invalid."""
        decided = self.group_decided(name)

        def reached() -> bool:
            group = self.local.spu_groups.get(name)
            if group is None or group.status.resolution is SpuGroupResolution.INVALID:
                return True
            if not decided():
                return False
            online = sum(spu.is_online for spu in self.local.spus_of(name).values())
            return online >= group.spec.replicas

        return reached

    def _has_settled(self, partition: Partition) -> bool:
        if partition.status.resolution is PartitionResolution.ONLINE:
            return True
        return not any(spu in self.local.spus and self.local.spus[spu].is_online for spu in partition.spec.replicas)
