"""Selects SPUs: which ones get replicas, stay, leave, or are expected back."""

from collections.abc import Iterable

from tailrace.cluster.replica_assignment import SpuOnRack
from tailrace.controller.objects.objects import Spu, SpuGroupResolution, SpuGroupSpec, SpuResolution, Topic
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.ids import SpuId


def ids_of(spec: SpuGroupSpec) -> range:
    """Returns the SPU ids that the group reserves."""
    return range(spec.min_id, spec.min_id + max(spec.replicas, 0))


def is_leaving(spu: Spu, store: LocalStore) -> bool:
    """Tells whether the SPU's group does not want the SPU any more. Such an SPU gets no new replicas."""
    if spu.spec.group is None:
        return False
    group = store.spu_groups.get(spu.spec.group)
    if group is None:
        return True
    return group.status.resolution is SpuGroupResolution.RESERVED and spu.spec.id not in ids_of(group.spec)


def is_unwanted(spu_id: SpuId, store: LocalStore, observed: Observed) -> bool:
    """Tells whether other SPUs should take over what this SPU holds: it was deleted, leaves, or stays offline."""
    spu = store.spus.get(spu_id)
    if spu is None:
        return True  # The SPU was deleted while the topic was deleted, and the topic has been brought back.
    return is_leaving(spu, store) or (spu_id in observed.away and not spu.is_online)


def accepting_spus(store: LocalStore, observed: Observed) -> list[Spu]:
    """Returns the SPUs that may get more replicas: online, wanted, with free space and working disks."""
    useless = observed.with_failed_disks | observed.full.keys()
    return [spu for spu in staying_spus(store) if spu.spec.id not in useless]


def staying_spus(store: LocalStore) -> list[Spu]:
    """Returns the SPUs that are online and wanted."""
    return [spu for spu in store.spus.values() if spu.is_online and not is_leaving(spu, store)]


def returning_spus(store: LocalStore) -> list[Spu]:
    """Returns the SPUs that were online once, are offline now, and are wanted back."""
    offline = SpuResolution.OFFLINE
    return [spu for spu in store.spus.values() if spu.status.resolution is offline and not is_leaving(spu, store)]


def with_racks(spus: Iterable[Spu], topic: Topic) -> list[SpuOnRack]:
    """Returns the SPUs by id, each with its rack unless the topic ignores racks."""
    racks = {spu.spec.id: None if topic.spec.ignores_racks else spu.spec.rack for spu in spus}
    return [SpuOnRack(spu, racks[spu]) for spu in sorted(racks)]
