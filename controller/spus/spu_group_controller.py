"""The SPU Group Controller: creates, changes and deletes the managed SPUs of each group.

A group first reserves its ids. Its SPUs are created when the store has the reservation. SPUs that are no longer wanted
are deleted one after the other, the highest id first, and only when they hold nothing any more. An object that is seen
for the first time deletes no SPU, since the topics in the store may not have been read yet.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tailrace.controller.objects.objects import (
    GROUP_REPLICAS_MAX,
    Partition,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupStatus,
    SpuSpec,
    SpuType,
    Topic,
    keepers_of,
    shelves_on,
)
from tailrace.controller.state.actions import Action, Delete, Provision, Put, Terminate
from tailrace.controller.state.assignment_load import ReplicaAssignments
from tailrace.controller.state.local_store import Change, LocalStore
from tailrace.protocol.ids import SpuId

from .spu_selection import ids_of, is_leaving

ID_MAX = 2**31 - 1


class SpuGroupController(Struct, frozen=True):
    """Decides about SPU groups when events concern them."""

    store: LocalStore
    assignments: ReplicaAssignments

    def on_group(self, change: Change[SpuGroup]) -> Iterator[Action]:
        """Checks all groups, since groups may compete for ids."""
        yield from self._decide_all(retires=change.previous is not None)
        if change.current is None and change.previous is not None:
            yield from self._retire(change.previous.name)

    def on_spu(self, change: Change[Spu]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        before = None if previous is None else previous.spec
        now = None if current is None else current.spec
        if before == now:
            if current is not None and current.spec.group is not None:
                yield from self._retry_after_lost_write(current, current.spec.group)
            return
        if current is not None and current.spec.type is SpuType.MANAGED:
            yield Provision(current)
        elif previous is not None and previous.spec.type is SpuType.MANAGED:
            yield Terminate(previous.spec.id)
        yield from self._decide_all(retires=previous is not None)
        if current is None:
            yield from self._retire_orphans()

    def _retry_after_lost_write(self, spu: Spu, name: str) -> Iterator[Action]:
        """Repeats what the group wants of the SPU, if that write was lost to a write of the SPU's status."""
        group = self.store.spu_groups.get(name)
        if group is None:
            yield from self._retire(name)
        elif is_leaving(spu, self.store) or spu.spec != _managed_spec(group, spu.spec.id):
            yield from self._decide(group, retires=True)

    def on_topic(self, change: Change[Topic]) -> Iterator[Action]:
        """Checks whether an SPU holds nothing any more after the topic's rows have changed."""
        previous, current = change.previous, change.current
        if previous is None or not previous.status.replica_map:
            return
        if current is None or previous.status.replica_map != current.status.replica_map:
            yield from self.reconcile()

    def on_partition(self, change: Change[Partition]) -> Iterator[Action]:
        """Checks whether an SPU has lost its last replica or shelf, so that it can be deleted."""
        previous, current = change.previous, change.current
        if previous is None or current is None:
            return
        before, now = previous.spec, current.spec
        if before.replicas == now.replicas and before.shelves == now.shelves:
            return
        there = keepers_of(current)
        left = [self.store.spus.get(spu) for spu in keepers_of(previous) if spu not in there]
        if any(spu is not None and spu.spec.group is not None and not self._holds_any(spu) for spu in left):
            yield from self.reconcile()

    def reconcile(self) -> Iterator[Action]:
        yield from self._decide_all(retires=True)
        yield from self._retire_orphans()

    def _decide_all(self, *, retires: bool) -> Iterator[Action]:
        for group in self.store.spu_groups.values():
            yield from self._decide(group, retires=retires)

    def _decide(self, group: SpuGroup, *, retires: bool) -> Iterator[Action]:
        fault = fault_of(group, self.store)
        if fault is not None:
            status = SpuGroupStatus(SpuGroupResolution.INVALID, fault)
        else:
            status = SpuGroupStatus(SpuGroupResolution.RESERVED, self._why_waiting(group.name))
        if status != group.status:
            yield Put(replace(group, status=status))
        if fault is None and group.status.resolution is SpuGroupResolution.RESERVED:
            yield from self._provide(group)
            if retires:
                yield from self._retire(group.name)

    def _provide(self, group: SpuGroup) -> Iterator[Action]:
        for spu_id in ids_of(group.spec):
            spec = _managed_spec(group, SpuId(spu_id))
            spu = self.store.spus.get(spec.id)
            if spu is None:
                yield Put(Spu(spec))
            elif spu.spec != spec:
                yield Put(replace(spu, spec=spec))

    def _retire_orphans(self) -> Iterator[Action]:
        for name in self.store.groups_with_spus:
            if name not in self.store.spu_groups:
                yield from self._retire(name)

    def _retire(self, name: str) -> Iterator[Action]:
        spu = self._next_leaving(name)
        if spu is not None and not self._holds_any(spu):
            yield Delete(spu)

    def _why_waiting(self, name: str) -> str:
        spu = self._next_leaving(name)
        if spu is None or not self._holds_any(spu):
            return ""
        held = describe_holdings(self._held_on(spu), shelves_on(spu.spec.id, self._shelved_on(spu)))
        return f"SPU {spu.spec.id} is leaving but holds {held}; it is deleted when these are moved or deleted"

    def _holds_any(self, spu: Spu) -> bool:
        """Tells whether the SPU has or should have replicas, or has shelves."""
        if self.assignments.replicas_on(spu.spec.id) > 0:
            return True
        return any(True for _ in self._replicas_on(spu)) or any(True for _ in self._shelved_on(spu))

    def _held_on(self, spu: Spu) -> int:
        return max(self.assignments.replicas_on(spu.spec.id), sum(1 for _ in self._replicas_on(spu)))

    def _replicas_on(self, spu: Spu) -> Iterator[Partition]:
        there = self.store.held_by(spu.spec.id).values()
        return (partition for partition in there if partition.topic_id in self.store.topics_by_id)

    def _shelved_on(self, spu: Spu) -> Iterator[Partition]:
        there = self.store.shelved_on(spu.spec.id).values()
        return (partition for partition in there if partition.topic_id in self.store.topics_by_id)

    def _next_leaving(self, name: str) -> Spu | None:
        leaving = (spu for spu in self.store.spus_of(name).values() if is_leaving(spu, self.store))
        return max(leaving, key=lambda spu: spu.spec.id, default=None)


def describe_holdings(replicas: int, shelves: int) -> str:
    """Returns the numbers of replicas and shelves that are not zero, in words."""
    counts = ((replicas, "replica", "replicas"), (shelves, "shelf", "shelves"))
    return " and ".join(f"{count} {one if count == 1 else many}" for count, one, many in counts if count)


def _managed_spec(group: SpuGroup, spu: SpuId) -> SpuSpec:
    template = group.spec.template
    return SpuSpec(
        spu,
        SpuType.MANAGED,
        template.rack,
        template.public,
        template.private,
        template.size_bytes,
        template.log_directory,
        group.name,
        template.configs,
    )


def fault_of(group: SpuGroup, store: LocalStore) -> str | None:
    """Returns why the group cannot have its ids, or None if it can."""
    ids = ids_of(group.spec)
    if not 1 <= len(ids) <= GROUP_REPLICAS_MAX:
        return f"replicas: {group.spec.replicas} is not between 1 and {GROUP_REPLICAS_MAX}"
    if ids[0] < 0 or ids[-1] > ID_MAX:
        return f"minId: the ids {_range_text(ids)} are not all between 0 and {ID_MAX}"
    for spu_id in ids:
        spu = store.spus.get(SpuId(spu_id))
        if spu is not None and spu.spec.group != group.name:
            owner = "is a custom SPU" if spu.spec.group is None else f"belongs to the group {spu.spec.group}"
            return f"of the ids {_range_text(ids)} one is taken: SPU {spu_id} {owner}"
    for other in _groups_before(group, store):
        theirs = ids_of(other.spec)
        if ids.start < theirs.stop and theirs.start < ids.stop:
            return f"the ids {_range_text(ids)} overlap with {_range_text(theirs)} of the group {other.name}"
    return None


def _groups_before(group: SpuGroup, store: LocalStore) -> Iterator[SpuGroup]:
    """Returns the groups that take precedence for ids: those that have reserved them, then those created earlier."""
    rank = _RANKS[group.status.resolution]
    is_earlier = True
    for other in store.spu_groups.values():
        if other.name == group.name:
            is_earlier = False
        elif other.status.resolution is not SpuGroupResolution.INVALID:  # An invalid group has no ids.
            its_rank = _RANKS[other.status.resolution]
            if its_rank < rank or (its_rank == rank and is_earlier):
                yield other


_RANKS = {SpuGroupResolution.RESERVED: 0, SpuGroupResolution.INIT: 1, SpuGroupResolution.INVALID: 2}


def _range_text(ids: range) -> str:
    return str(ids[0]) if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"
