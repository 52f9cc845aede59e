"""The Topic Controller: chooses the SPUs of new replicas, also offline ones if needed, and creates partitions.

The rows are stored first, and partitions are created only from stored rows. If both were written at once and the rows
lost their compare-and-set, the partitions could contradict the rows that are decided next.

New replicas go to SPUs that are online and stay. Full SPUs get some only if there are too few others, and offline SPUs
only if there are too few that are online. So with one of three SPUs offline, a topic with three replicas is created all
the same, and the other two lead. Rows that a person chose may name any registered SPU.

If SPUs leave or stay offline for long, partitions that they hold get other rows, and then move.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tailrace.cluster.replica_assignment import InsufficientResources, SpuOnRack, assign, fault_of_rows
from tailrace.cluster.topic_planning import PARTITIONS_ADDED_MAX
from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    ReplicaMap,
    Spu,
    SpuGroup,
    Topic,
    TopicResolution,
    TopicStatus,
)
from tailrace.controller.spus.spu_selection import (
    accepting_spus,
    is_leaving,
    is_unwanted,
    returning_spus,
    staying_spus,
    with_racks,
)
from tailrace.controller.state.actions import Action, Delete, Put
from tailrace.controller.state.assignment_load import ReplicaAssignments
from tailrace.controller.state.local_store import Change, LocalStore, is_finished
from tailrace.controller.state.observed import Observed
from tailrace.protocol.ids import SpuId, TopicId

from .replacements import replace_unwanted


class TopicController:
    """Decides about topics when events concern them."""

    def __init__(self, store: LocalStore, assignments: ReplicaAssignments, observed: Observed) -> None:
        self._store = store
        self._assignments = assignments
        self._observed = observed
        self._unknown: frozenset[TopicId] = frozenset()
        """Topics that some partitions name, but that were missing in the store at the last reconciliation."""

    def on_topic(self, change: Change[Topic]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        if previous is not None and (current is None or current.id != previous.id):
            self._assignments.remove(previous.id)
        if current is not None:
            self._assignments.put(current.id, current.status.replica_map)
            yield from self._decide(current)

    def on_spu(self, change: Change[Spu]) -> Iterator[Action]:
        """Retries topics that lack rows when an SPU is registered or comes online."""
        previous, current = change.previous, change.current
        if current is not None and (previous is None or (current.is_online and not previous.is_online)):
            for topic in tuple(self._store.unfinished_topics.values()):
                yield from self._decide(topic)

    def on_group(self, change: Change[SpuGroup]) -> Iterator[Action]:
        """Finds other rows for topics with replicas on SPUs that leave their group."""
        leaving = [spu for spu in self._store.spus.values() if is_leaving(spu, self._store)]
        held = {topic_id for spu in leaving for topic_id, _ in self._store.held_by(spu.spec.id)}
        for topic_id in sorted(held):
            if topic_id in self._store.topics_by_id:
                yield from self._decide(self._store.topics_by_id[topic_id])

    def reconcile(self) -> Iterator[Action]:
        for topic in self._store.topics.values():
            yield from self._decide(topic)
        yield from self._delete_orphans()

    def _delete_orphans(self) -> Iterator[Action]:
        """Deletes the partitions of topics that are gone for good.

        A topic must be missing at two reconciliations. At the first one, the reader may be between two keys.
        """
        known = self._store.topics_by_id.keys() | self._store.deleted_topics.keys()
        unknown = [topic_id for topic_id in self._store.topics_with_partitions if topic_id not in known]
        for topic_id in unknown:
            if topic_id in self._unknown:
                yield from map(Delete, self._store.partitions_of(topic_id).values())
        self._unknown = frozenset(unknown)

    def _decide(self, topic: Topic) -> Iterator[Action]:
        status = self._next_status(topic)
        if status != topic.status:
            self._assignments.put(topic.id, status.replica_map)
            yield Put(replace(topic, status=status))
        if topic.status.resolution is TopicResolution.PROVISIONED:
            there = self._store.partitions_of(topic.id)
            for number, replicas in topic.status.replica_map.items():
                if number not in there:
                    yield Put(Partition(topic.name, topic.id, number, PartitionSpec(replicas[0], replicas)))

    def _next_status(self, topic: Topic) -> TopicStatus:
        status = topic.status
        if status.resolution is TopicResolution.NONE:
            return replace(status, resolution=TopicResolution.INIT)
        if is_finished(topic):
            return replace(status, replica_map=self._rows_that_stay(topic), reason="")
        is_provisioned = status.resolution is TopicResolution.PROVISIONED  # It should get more partitions.
        fault = self._fault(topic)
        if fault is not None:
            resolution = status.resolution if is_provisioned else TopicResolution.INVALID_CONFIG
            return replace(status, resolution=resolution, reason=fault)
        if status.resolution in (TopicResolution.INIT, TopicResolution.INVALID_CONFIG):
            return replace(status, resolution=TopicResolution.PENDING, reason="")
        rows = self._more_rows(topic)
        if isinstance(rows, InsufficientResources):
            waiting = status.resolution if is_provisioned else TopicResolution.INSUFFICIENT_RESOURCES
            return replace(status, resolution=waiting, reason=rows.reason)
        return TopicStatus(TopicResolution.PROVISIONED, {**status.replica_map, **rows})

    def _rows_that_stay(self, topic: Topic) -> ReplicaMap:
        """Returns the rows without SPUs that leave or stay offline, and without replicas on failed disks.

        Only partitions with a leader move, since others can copy from it.
        """
        rows = topic.status.replica_map
        named = {spu for row in rows.values() for spu in row}
        unwanted = {spu for spu in named if is_unwanted(spu, self._store, self._observed)}
        failed = self._observed.failed

        def is_to_go(number: int, spu: SpuId) -> bool:
            return spu in unwanted or (topic.id, number, spu) in failed

        if not unwanted and not (failed and any(is_to_go(number, spu) for number in rows for spu in rows[number])):
            return rows
        there = self._store.partitions_of(topic.id)
        led = [number for number in rows if number in there and _is_led(there[number])]
        return replace_unwanted(rows, led, is_to_go, self._spus(topic), self._assignments.beside(topic.id))

    def _fault(self, topic: Topic) -> str | None:
        """Returns what is wrong with the topic's spec, whether SPUs are online or not."""
        spec, rows = topic.spec, topic.status.replica_map
        added = spec.partitions - len(rows)
        for name, value in (("partitions", spec.partitions), ("replicationFactor", spec.replication_factor)):
            if value < 1:
                return f"{name}: {value} is less than 1"
        if added > PARTITIONS_ADDED_MAX:
            return f"partitions: {added} would be added at a time, more than {PARTITIONS_ADDED_MAX}"
        chosen = {number: row for number, row in spec.replica_map.items() if number not in rows}
        for number, row in chosen.items():
            if number >= spec.partitions:
                return f"replicaMap: there is a row for partition {number}, but partitions are {spec.partitions}"
            if len(row) != spec.replication_factor:
                return f"replicaMap: partition {number} has {len(row)} replicas, not {spec.replication_factor}"
        fault = fault_of_rows(chosen, self._store.spus)
        return None if fault is None else f"replicaMap: {fault}"

    def _more_rows(self, topic: Topic) -> ReplicaMap | InsufficientResources:
        """Returns the rows that the topic lacks, in the order of their numbers."""
        spec, rows = topic.spec, topic.status.replica_map
        lacking = [number for number in range(spec.partitions) if number not in rows]
        chosen = {number: spec.replica_map[number] for number in lacking if number in spec.replica_map}
        to_compute = [number for number in lacking if number not in chosen]
        if not to_compute:
            return chosen
        computed = assign(
            to_compute,
            spec.replication_factor,
            self._spus_for_new(topic),
            own=(*rows.values(), *chosen.values()),
            others=self._assignments.beside(topic.id),
        )
        if isinstance(computed, InsufficientResources):
            return computed
        return {number: chosen.get(number) or computed[number] for number in lacking}

    def _spus(self, topic: Topic) -> list[SpuOnRack]:
        online = staying_spus(self._store)
        with_room = accepting_spus(self._store, self._observed)
        return with_racks(with_room if len(with_room) >= topic.spec.replication_factor else online, topic)

    def _spus_for_new(self, topic: Topic) -> list[SpuOnRack]:
        """Returns the SPUs for new rows: those online, and as few offline ones as the replication factor needs.

        If offline SPUs are needed, all SPUs that are online are in every row, and one of them leads.
        """
        online = self._spus(topic)
        lacking = topic.spec.replication_factor - len(online)
        if lacking <= 0 or not online:
            return online
        away = sorted(returning_spus(self._store), key=lambda spu: (spu.spec.id in self._observed.away, spu.spec.id))
        return [*online, *with_racks(away[:lacking], topic)]


def _is_led(partition: Partition) -> bool:
    return partition.status.resolution is PartitionResolution.ONLINE
