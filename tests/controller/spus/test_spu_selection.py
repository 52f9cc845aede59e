"""Which SPUs may hold replicas, from their objects, their groups, and what their connections reported."""

from controller_model import custom, group, topic
from msgspec.structs import replace

from tailrace.controller.objects.objects import (
    Object,
    Spu,
    SpuGroupResolution,
    SpuGroupStatus,
    SpuResolution,
    SpuStatus,
)
from tailrace.controller.spus.spu_selection import (
    accepting_spus,
    ids_of,
    is_leaving,
    is_unwanted,
    returning_spus,
    staying_spus,
    with_racks,
)
from tailrace.controller.state.events import SpuConnected, SpusAway, StorageReported, Stored
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address

ONLINE, OFFLINE = SpuStatus(SpuResolution.ONLINE), SpuStatus(SpuResolution.OFFLINE)


def stored(*objects: Object) -> LocalStore:
    store = LocalStore()
    for found in objects:
        store.apply(Stored(replace(found, version=1)))
    return store


def managed(spu: int, status: SpuStatus = ONLINE) -> Spu:
    return replace(custom(spu), spec=replace(custom(spu).spec, group="main"), status=status)


def reserved(replicas: int, resolution: SpuGroupResolution = SpuGroupResolution.RESERVED) -> Object:
    return replace(group("main", replicas, 11), status=SpuGroupStatus(resolution))


def spu_ids(spus: list[Spu]) -> list[int]:
    return [spu.spec.id for spu in spus]


def test_a_group_reserves_as_many_ids_as_it_has_replicas() -> None:
    assert list(ids_of(group("main", 3, 11).spec)) == [11, 12, 13]
    assert not ids_of(group("main", -1, 11).spec)


def test_a_managed_spu_leaves_when_its_group_is_gone_or_no_longer_reserves_its_id() -> None:
    assert not is_leaving(custom(1), stored())
    assert is_leaving(managed(11), stored())
    assert not is_leaving(managed(12), stored(reserved(2)))
    assert is_leaving(managed(12), stored(reserved(1)))
    assert not is_leaving(managed(12), stored(reserved(1, SpuGroupResolution.INVALID)))


def test_an_spu_is_unwanted_that_was_deleted_leaves_or_stays_offline() -> None:
    observed = Observed()
    observed.apply(SpusAway(frozenset({SpuId(1), SpuId(2)})))
    store = stored(
        replace(custom(1), status=OFFLINE), replace(custom(2), status=ONLINE), replace(custom(3), status=OFFLINE)
    )
    assert [is_unwanted(SpuId(spu), store, observed) for spu in (1, 2, 3, 4)] == [True, False, False, True]
    assert is_unwanted(SpuId(12), stored(reserved(1), managed(12)), observed)


def test_full_spus_and_spus_with_failed_disks_stay_but_accept_nothing() -> None:
    online = [replace(custom(spu), status=ONLINE) for spu in (1, 2, 3)]
    store = stored(*online, replace(custom(4), status=OFFLINE), custom(5), managed(11))
    observed = Observed()
    observed.apply(SpusAway(frozenset(), frozenset({(topic("t").id, 0, SpuId(2))})))
    observed.apply(SpuConnected(SpuId(3), "first", "first", (), Address("spu-3", 9006)))
    observed.apply(StorageReported(SpuId(3), "first", True, 10, 10))
    assert spu_ids(staying_spus(store)) == [1, 2, 3]
    assert spu_ids(accepting_spus(store, observed)) == [1]
    assert spu_ids(returning_spus(store)) == [4]


def test_spus_are_sorted_and_have_racks_unless_the_topic_ignores_racks() -> None:
    spus = [custom(2, "b"), custom(1, "a")]
    spread = topic("t")
    ignoring = replace(spread, spec=replace(spread.spec, ignores_racks=True))
    assert [(each.id, each.rack) for each in with_racks(spus, spread)] == [(1, "a"), (2, "b")]
    assert [(each.id, each.rack) for each in with_racks(spus, ignoring)] == [(1, None), (2, None)]
