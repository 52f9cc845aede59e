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

    def takes_markers(self, replica: Replica) -> bool:
        """Returns whether the groups of this replica of `__consumer_offsets` are loaded. Otherwise they would miss a
        marker."""
        return any(partition.replica is replica and partition.is_loaded for partition in self.partitions())

    def on_marker(self, replica: Replica, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Notes that a marker was appended to a replica whose groups are loaded."""

    def _on_topic_deleted(self, topic: TopicSpec) -> None:
        """Schedules the removal of the topic's offsets. There may be many, so it begins with the next alarm."""
        for partition in self.partitions():
            partition.coordinator.offsets.removal.on_topic_deleted(topic.id, topic.name)
            partition.update_alarm()
