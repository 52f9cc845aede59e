"""The load of SPUs, counted from the rows of topics."""

from controller_model import topic_id
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cluster.replica_assignment import Load
from tailrace.controller.objects.objects import ReplicaMap
from tailrace.controller.state.assignment_load import ReplicaAssignments
from tailrace.protocol.ids import SpuId

ROW = st.lists(st.integers(1, 4).map(SpuId), min_size=1, max_size=3, unique=True).map(tuple)
ROWS = st.dictionaries(st.integers(0, 3), ROW, max_size=4)


def test_the_rows_of_other_topics_are_the_load() -> None:
    assignments = ReplicaAssignments()
    assignments.put(topic_id(1), {0: (SpuId(1), SpuId(2)), 1: (SpuId(2), SpuId(1))})
    assignments.put(topic_id(2), {0: (SpuId(2),)})
    assert [assignments.replicas_on(SpuId(spu)) for spu in (1, 2, 3)] == [2, 3, 0]
    beside = assignments.beside(topic_id(1))
    assert (+beside.replicas, +beside.leaders) == ({2: 1}, {2: 1})
    assignments.remove(topic_id(2))
    assert assignments.replicas_on(SpuId(2)) == 2


@given(st.lists(st.tuples(st.integers(1, 3), st.one_of(st.none(), ROWS)), max_size=20))
def test_counting_step_by_step_gives_what_counting_anew_gives(steps: list[tuple[int, ReplicaMap | None]]) -> None:
    assignments, left = ReplicaAssignments(), dict[int, ReplicaMap]()
    for number, rows in steps:
        if rows is None:
            assignments.remove(topic_id(number))
            left.pop(number, None)
        else:
            assignments.put(topic_id(number), rows)
            left[number] = rows
    for number in range(1, 4):
        beside = assignments.beside(topic_id(number))
        expected = Load().add(row for other, rows in left.items() if other != number for row in rows.values())
        assert (+beside.replicas, +beside.leaders) == (expected.replicas, expected.leaders)
    everything = Load().add(row for rows in left.values() for row in rows.values())
    for spu in map(SpuId, range(1, 5)):
        assert assignments.replicas_on(spu) == everything.replicas[spu]
