"""Conditions that tell when a change has taken effect.

They are evaluated whenever the Local Store or the mirror may have changed.
"""

from msgspec import Struct

from tailrace.cluster.cluster import Cluster
from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    SpuGroupResolution,
    TopicResolution,
    TriggerResolution,
)
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.ids import Epoch, SpuId, TopicId

from .planned_changes import Condition

_UNDECIDED = (TopicResolution.NONE, TopicResolution.INIT, TopicResolution.PENDING)


class CompletionConditions(Struct, frozen=True):
    """Makes the conditions from the Local Store and the mirror."""

    local: LocalStore
    cluster: Cluster
    """The mirror, from which clients are served."""

    def topic_served(self, topic_id: TopicId, partitions: int) -> Condition:
        """True when every partition that has a replica online has a leader that has reported."""
        left = list(range(partitions))

        def is_reached() -> bool:
            topic = self.local.topics_by_id.get(topic_id)
            if topic is None:
                return True  # The topic was deleted while this waited.
            if topic.status.resolution is not TopicResolution.PROVISIONED:
                return False
            while left:
                partition = self.local.partitions.get((topic_id, left[-1]))
                if partition is None or not self._has_settled(partition):
                    return False
                left.pop()  # A partition that was served once is not checked again.
            mirrored = self.cluster.topic_by_id(topic_id)
            return mirrored is not None and len(mirrored.partitions) >= partitions

        return is_reached

    def topic_decided(self, topic_id: TopicId) -> Condition:
        """True when the topic has its rows, or a reason why it has none."""

        def is_reached() -> bool:
            topic = self.local.topics_by_id.get(topic_id)
            return topic is None or topic.status.resolution not in _UNDECIDED

        return is_reached

    def topic_settled(self, topic_id: TopicId, partitions: int) -> Condition:
        """True when the topic is served, or has a reason why it is not provisioned or does not grow."""
        decided, served = self.topic_decided(topic_id), self.topic_served(topic_id, partitions)

        def is_reached() -> bool:
            topic = self.local.topics_by_id.get(topic_id)
            if topic is None or topic.status.resolution is not TopicResolution.PROVISIONED:
                return decided()
            return bool(topic.status.reason) or served()

        return is_reached

    def partition_led(self, partition: Partition, epoch: Epoch) -> Condition:
        """True when a leader that was elected in this epoch or later has reported, or the partition is deleted."""
        key = (partition.topic_id, partition.number)

        def is_reached() -> bool:
            now = self.local.partitions.get(key)
            return now is None or (now.status.epoch >= epoch and now.status.resolution is PartitionResolution.ONLINE)

        return is_reached

    def topic_deleted(self, topic_id: TopicId) -> Condition:
        """True when neither the Local Store nor the mirror has the topic."""
        return lambda: topic_id not in self.local.topics_by_id and self.cluster.topic_by_id(topic_id) is None

    def spu_online(self, spu_id: SpuId) -> Condition:
        """True when the SPU is online, or deleted."""
        return lambda: spu_id not in self.local.spus or self.local.spus[spu_id].is_online

    def group_decided(self, name: str) -> Condition:
        """True when the group's ids are reserved, or there is a reason why they cannot be."""

        def is_reached() -> bool:
            group = self.local.spu_groups.get(name)
            return group is None or group.status.resolution is not SpuGroupResolution.INIT

        return is_reached

    def group_running(self, name: str) -> Condition:
        """True when all SPUs of the group are online, or the group is invalid and has none."""
        decided = self.group_decided(name)

        def is_reached() -> bool:
            group = self.local.spu_groups.get(name)
            if group is None or group.status.resolution is SpuGroupResolution.INVALID:
                return True
            if not decided():
                return False
            online = sum(spu.is_online for spu in self.local.spus_of(name).values())
            return online >= group.spec.replicas

        return is_reached

    def trigger_decided(self, name: str) -> Condition:
        """True when the number and the revisions of the replicas follow from the trigger's spec, or it is deleted."""

        def is_reached() -> bool:
            trigger = self.local.triggers.get(name)
            if trigger is None:
                return True
            spec, status = trigger.spec, trigger.status
            if spec.paused or status.resolution in (TriggerResolution.NONE, TriggerResolution.PAUSED):
                return spec.paused and status.resolution is TriggerResolution.PAUSED
            if status.resolution is TriggerResolution.WAITING:
                return True
            least = spec.replicas if spec.min_replicas is None else spec.min_replicas
            return spec.revision in status.revisions and least <= len(status.revisions) <= spec.replicas

        return is_reached

    def _has_settled(self, partition: Partition) -> bool:
        if partition.status.resolution is PartitionResolution.ONLINE:
            return True
        return not any(spu in self.local.spus and self.local.spus[spu].is_online for spu in partition.spec.replicas)
