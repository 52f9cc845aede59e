from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tailrace.controller.objects import Partition, PartitionSpec
from tailrace.controller.spec_cache import SpecCache
from tailrace.protocol.ids import SpuId

TOPIC = UUID(int=1)

_ids = st.integers(0, 4).map(SpuId)
_changes = st.lists(
    st.tuples(st.integers(0, 5), st.none() | st.lists(_ids, min_size=1, max_size=3, unique=True)), max_size=30
)


@given(_changes)
def test_the_cache_knows_who_holds_what_and_whom_a_change_concerns(
    changes: list[tuple[int, list[SpuId] | None]],
) -> None:
    cache = SpecCache()
    replicas: dict[int, list[SpuId]] = {}
    for number, now in changes:
        before = replicas.pop(number, [])
        if now is None:
            concerned = cache.drop_partition((TOPIC, number))
        else:
            replicas[number] = now
            concerned = cache.put_partition(Partition("t", TOPIC, number, PartitionSpec(now[0], tuple(now))))
        assert set(concerned) == {*before, *(now or ())}
        assert len(set(concerned)) == len(concerned)
        assert cache.held == {
            spu: {(TOPIC, each) for each, holders in replicas.items() if spu in holders}
            for spu in {spu for holders in replicas.values() for spu in holders}
        }
        assert {key[1] for key in cache.partitions} == set(replicas)
