from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.specs import Shelf
from tailrace.controller.connections.spec_cache import SpecCache
from tailrace.controller.objects.objects import Partition, PartitionSpec
from tailrace.protocol.ids import SpuId

TOPIC = UUID(int=1)

_ids = st.integers(0, 4).map(SpuId)
_some = st.lists(_ids, min_size=1, max_size=3, unique=True)
_partitions = st.tuples(_some, st.none() | _some)
"""The replicas of each, and who has a shelf of it."""
_changes = st.lists(st.tuples(st.integers(0, 5), st.none() | _partitions), max_size=30)


@given(_changes)
def test_the_cache_knows_which_spus_a_change_concerns(
    changes: list[tuple[int, tuple[list[SpuId], list[SpuId] | None] | None]],
) -> None:
    cache = SpecCache()
    keepers: dict[int, list[SpuId]] = {}
    replicas: dict[int, list[SpuId]] = {}
    for number, named in changes:
        before, now = keepers.pop(number, []), []
        replicas.pop(number, None)
        if named is None:
            concerned = cache.drop_partition((TOPIC, number))
        else:
            replicas[number], stores = named
            now = keepers[number] = [*replicas[number], *(stores or ())]
            shelves = (Shelf(0, 5, tuple(stores[:1]), tuple(stores[1:])),) if stores else ()
            spec = PartitionSpec(now[0], tuple(replicas[number]), shelves=shelves)
            concerned = cache.put_partition(Partition("t", TOPIC, number, spec))
        assert set(concerned) == {*before, *now}
        assert len(set(concerned)) == len(concerned)
        assert cache.partitions_by_spu == {
            spu: {(TOPIC, each) for each, holders in keepers.items() if spu in holders}
            for spu in {spu for holders in keepers.values() for spu in holders}
        }
        for spu in map(SpuId, range(5)):
            assert cache.replicas_on(spu) == sum(spu in row for row in replicas.values())
        assert {key[1] for key in cache.partitions} == set(replicas)
