from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.specs import Shelf
from tailrace.controller.partitions.shelf_assignments import ShelfAssignments
from tailrace.protocol.ids import SpuId

_ids = st.integers(0, 3).map(SpuId)
_shelves = st.lists(st.tuples(st.lists(_ids, max_size=2), st.lists(_ids, max_size=2)), max_size=3).map(
    lambda rows: tuple(Shelf(0, 0, tuple(stores), tuple(filling)) for stores, filling in rows)
)


@given(st.lists(st.tuples(st.integers(0, 3), _shelves)))
def test_each_shelf_counts_once_for_each_that_keeps_it_or_is_to_get_it(
    changes: list[tuple[int, tuple[Shelf, ...]]],
) -> None:
    assignments = ShelfAssignments()
    for number, shelves in changes:
        assignments.put((UUID(int=1), number), shelves)
    now = [shelf for shelves in dict(changes).values() for shelf in shelves]
    wanted = Counter(spu for shelf in now for spu in (*shelf.stores, *shelf.filling))
    assert {spu: count for spu, count in assignments.load.items() if count} == wanted
