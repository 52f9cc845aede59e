"""The groups that this SPU coordinates, by the partitions of `__consumer_offsets` it leads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace.broker.coordination.coordination import Coordination
from tailrace.broker.coordination.coordination_context import CoordinationContext
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.cluster.specs import TopicSpec

if TYPE_CHECKING:
    from tailrace.broker.coordination.coordinator_kind import CoordinatorKind
    from tailrace.broker.groups.common.group import Group
    from tailrace.broker.groups.coordinator.coordinator import Coordinator
    from tailrace.broker.groups.offsets.committed_offsets import CommittedOffsets


class GroupCoordination(Coordination["Coordinator"]):
    def __init__(
        self, replicas: ReplicaRegistry, context: CoordinationContext, kind: "CoordinatorKind[Coordinator]"
    ) -> None:
        super().__init__(replicas, context, kind)
        context.cluster.gone_watchers.append(self._on_topic_deleted)

    def groups(self) -> Iterator["Group"]:
        """Yields all loaded groups."""
        return (group for partition in self.loaded() for group in partition.coordinator.groups.values())

    def committed(self) -> list["CommittedOffsets"]:
        """Returns the committed offsets of each loaded group partition."""
        return [partition.coordinator.offsets.committed for partition in self.loaded()]

    @property
    def pending_offsets(self) -> int:
        """The number of offsets that wait for the ends of transactions."""
        return sum(len(partition.coordinator.offsets.pending) for partition in self.loaded())

    def on_marker(self, replica: Replica, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Ends a transaction that may have committed offsets, because its marker was appended to the replica just now.

        The marker may be replicated later: responses that tell of its effect wait for that. Whatever calls this ends
        its turn afterwards. A coordinator that begins later finds the marker in the log.
        """
        partition = self._partitions.get(replica.partition)
        if partition is not None and partition.replica is replica:
            partition.on_marker(producer_id, is_commit=is_commit)

    def _on_topic_deleted(self, topic: TopicSpec) -> None:
        """Schedules the removal of the topic's offsets. There may be many, so it begins with the next alarm."""
        for partition in self.partitions():
            partition.coordinator.offsets.removal.on_topic_deleted(topic.id, topic.name)
            partition.update_alarm()
