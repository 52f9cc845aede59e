"""The Partition Controller: tells the Connection Manager what partitions there are, and sees that each has a leader.

It decides from what is, never from what has just changed: whatever event makes it look at a partition, the same state
gives the same status. So a write that was lost to another one is simply decided again. A partition counts only while
its topic is there; that of a deleted topic stays in the store as it is, so that its epoch does not fall when the topic
is brought back.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tailrace.protocol.ids import SpuId

from .actions import Action, AddPartition, DeletePartition, Put, UpdatePartition
from .election import elected, has_leader, is_current, live_replicas
from .events import LiveReplicasReported
from .local_store import Change, LocalStore
from .objects import NO_LEADER, Partition, PartitionResolution, PartitionStatus, Spu, Topic
from .observed import LiveReplicasReport, Observed


@dataclass(frozen=True, slots=True)
class PartitionController:
    store: LocalStore
    observed: Observed

    def on_partition(self, change: Change[Partition]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        if current is None:
            assert previous is not None
            self.observed.forget(previous.topic_id, previous.number, previous.spec.replicas)
            if previous.topic_id in self.store.topics_by_id:
                yield DeletePartition(previous.topic_id, previous.number)
        elif current.topic_id in self.store.topics_by_id:
            if previous is None:
                yield AddPartition(current)
            elif _concerns_spus(previous, current):
                yield UpdatePartition(current)
            yield from self._decide(current)

    def on_topic(self, change: Change[Topic]) -> Iterator[Action]:
        """A topic that is brought back, and one that is read after its partitions: at a start it is."""
        previous, current = change.previous, change.current
        if previous is not None and current is not None and previous.id == current.id:
            return
        if previous is not None:
            for number in self.store.partitions_of(previous.id):
                yield DeletePartition(previous.id, number)
        if current is not None:
            for partition in self.store.partitions_of(current.id).values():
                yield AddPartition(partition)
                yield from self._decide(partition)

    def on_spu(self, change: Change[Spu]) -> Iterator[Action]:
        """An SPU that comes, goes, or is another process now: of no other news does an election depend."""
        spu = change.current or change.previous
        assert spu is not None
        if _process(change.previous) != _process(change.current):
            yield from self._decide_all(self.store.held_by(spu.spec.id).values())

    def on_report(self, event: LiveReplicasReported) -> Iterator[Action]:
        partition = self.store.partitions.get((event.topic_id, event.number))
        if partition is not None:
            yield from self._decide_all((partition,))

    def reconcile(self) -> Iterator[Action]:
        yield from self._decide_all(self.store.partitions.values())

    def _decide_all(self, partitions: Iterable[Partition]) -> Iterator[Action]:
        topics = self.store.topics_by_id
        for partition in partitions:
            if partition.topic_id in topics:
                yield from self._decide(partition)

    def _decide(self, partition: Partition) -> Iterator[Action]:
        report = self.observed.report(partition.status.leader, partition.topic_id, partition.number)
        status = next_status(partition, self.store.spus, report)
        if status != partition.status:
            yield Put(replace(partition, status=status))


def next_status(partition: Partition, spus: Mapping[SpuId, Spu], report: LiveReplicasReport | None) -> PartitionStatus:
    """What the status is to be, given the SPUs and what the leader last reported.

    A leader that has been elected is a candidate until it reports itself: waiting for that report with a deadline, and
    electing another when it does not come, is a matter of this function alone.
    """
    status = partition.status
    if status.resolution is PartitionResolution.NONE:
        return replace(status, resolution=PartitionResolution.OFFLINE, reason="no leader has been elected yet")
    current = report if is_current(report, partition) else None
    if not has_leader(partition, spus):
        return elected(partition, spus, current)
    return replace(
        status,
        resolution=status.resolution if current is None else PartitionResolution.ONLINE,
        live_replicas=live_replicas(partition, spus, current),
    )


def _concerns_spus(previous: Partition, current: Partition) -> bool:
    before, now = previous.status, current.status
    return (
        previous.spec != current.spec
        or _leader_told(before) != _leader_told(now)
        or before.epoch != now.epoch
        or before.live_replicas != now.live_replicas
    )


def _leader_told(status: PartitionStatus) -> SpuId:
    """One that is offline stays named in the store for its return, but leads nothing now."""
    return NO_LEADER if status.resolution is PartitionResolution.OFFLINE else status.leader


def _process(spu: Spu | None) -> str | None:
    """None while it is not online."""
    return spu.status.incarnation if spu is not None and spu.is_online else None
