"""A quorum read shows what was acknowledged, from what several stores hold."""

from collections.abc import Collection, Sequence

from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.policy import parse_policy
from tailrace.broker.replication.quorum_read import Membership, QuorumRead, StoreAnswer, quorum_read
from tailrace.protocol.ids import Epoch, SpuId

A, B, C, D = map(SpuId, (1, 2, 3, 4))
QUORUM = "nrw:3,2,2"


def e(base: int, epoch: int = 1, *, content: int | None = None, end: int | None = None) -> Entry:
    return Entry(base, end or base + 1, Epoch(epoch), content=base if content is None else content)


def h(base: int, epoch: int) -> Entry:
    return Entry(base, base + 1, Epoch(epoch), kind=EntryKind.HOLE)


def member(
    epoch: int = 1,
    *,
    policy: str = QUORUM,
    live: Collection[SpuId] = (A, B, C),
    replicas: Sequence[SpuId] = (A, B, C),
    copy_sets: Sequence[Sequence[SpuId]] = (),
    has_leader: bool = True,
    replicas_min: int = 1,
    version: int = 0,
) -> Membership:
    parsed = parse_policy(policy, replicas=len(replicas), replicas_min=replicas_min, copy_sets=copy_sets)
    return Membership(Epoch(epoch), version, has_leader, frozenset(replicas), frozenset(live), replicas_min, parsed)


def store(
    spu: SpuId,
    *entries: Entry,
    knows: Membership | None = None,
    committed: int = 0,
    promised: int = 1,
    in_doubt: bool = False,
    log_start: int = 0,
    log_end: int | None = None,
    read_end: int | None = None,
) -> StoreAnswer:
    end = entries[-1].end if entries else committed
    log_end = end if log_end is None else log_end
    read_end = (end if log_end > end else log_end) if read_end is None else read_end
    knows = member() if knows is None else knows
    return StoreAnswer(spu, knows, Epoch(promised), in_doubt, committed, log_start, log_end, read_end, tuple(entries))


def read(position: int, *answers: StoreAnswer, live: Collection[SpuId] | None = None) -> QuorumRead:
    found = quorum_read(position, answers, live)
    assert found is not None
    return found


def shown(found: QuorumRead) -> list[tuple[int, int]]:
    """Returns offset and content of each entry."""
    return [(each.entry.base, each.entry.content) for each in found.entries]


# the stream engine's example: N = 3, R = W = 2; its indexes begin at 1


def test_of_two_entries_at_one_index_a_reader_takes_that_of_the_larger_epoch() -> None:
    """A has e1, e2 and e3; B and C lack e2. Leader 2 asked B and C, and wrote a hole there. A reader asks A and B."""
    a = store(A, e(1), e(2), e(3))
    b = store(B, e(1, 2), h(2, 2), e(3, 2), promised=2, committed=4)
    found = read(1, a, b)
    assert shown(found) == [(1, 1), (3, 3)]
    assert (found.end, found.may_end) == (4, 4)


def test_without_the_high_watermark_a_read_says_what_may_be_acknowledged() -> None:
    a = store(A, e(1), e(2), e(3))
    b = store(B, e(1, 2), h(2, 2), e(3, 2), promised=2)
    assert read(1, a, b) == QuorumRead(1, 1, 4, ())


def test_a_third_store_that_has_the_hole_as_well_proves_it() -> None:
    knows = member(2)
    a = store(A, e(1), e(2), e(3))
    b, c = (store(each, e(1, 2), h(2, 2), e(3, 2), promised=2, knows=knows) for each in (B, C))
    found = read(1, a, b, c)
    assert shown(found) == [(1, 1), (3, 3)] and found.end == found.may_end == 4
    assert [each.holders for each in found.entries] == [(A, B, C), (A, B, C)]


# W of N


def test_entries_of_one_epoch_on_w_stores_are_acknowledged_before_any_store_knows_it() -> None:
    found = read(0, store(A, e(0), e(1), e(2)), store(B, e(0), e(1)))
    assert shown(found) == [(0, 0), (1, 1)]
    assert (found.end, found.may_end) == (2, 3)


def test_copies_under_different_stamps_prove_nothing() -> None:
    """Leader 1's entry is on A. Leader 2 asked B and C, which lacked it, and put another entry on C. Leader 3 asked A
    and B, and stamped the first entry on B. So two stores have it, and yet a leader that asks A and C takes the other
    one."""
    a, b, c = store(A, e(0, 1)), store(B, e(0, 3), knows=member(3), promised=3), store(C, e(0, 2, content=99))
    assert read(0, a, b).end == read(0, a, b, c).end == 0
    assert read(0, a, b).may_end == 1


def test_the_stores_that_commit_in_an_epoch_must_be_known() -> None:
    """Both stores know the spec of epoch 4, and have entries of epoch 1, in which other stores may have committed."""
    knows = member(4)
    found = read(0, store(A, e(0), knows=knows), store(B, e(0), knows=knows))
    assert (found.end, found.may_end) == (0, 1)


def test_entries_of_a_store_in_doubt_are_not_counted() -> None:
    a, b, c = store(A, e(0)), store(B, e(0), in_doubt=True), store(C)
    assert read(0, a, b, c).end == 0
    assert quorum_read(0, [a, b]) is None


def test_it_takes_r_stores_or_all() -> None:
    four = member(policy="nrw:4,3,2", replicas=(A, B, C, D))
    answers = [store(each, e(0), knows=four) for each in (A, B, C)]
    assert quorum_read(0, answers[:2]) is None
    assert read(0, *answers).end == 1
    doubts = [store(each, e(0), in_doubt=True) for each in (A, B, C)]
    assert read(0, *doubts).end == 0
    assert quorum_read(0, doubts[:2]) is None
    assert quorum_read(0, []) is None


def test_while_one_set_takes_over_each_has_to_answer_and_the_last_one_commits() -> None:
    moving = member(replicas=(A, B, C, D), copy_sets=((A, B), (C, D)), policy="majority")
    a, b, c, d = (store(each, e(0), knows=moving) for each in (A, B, C, D))
    assert quorum_read(0, [a, b, c]) is None
    assert read(0, a, b, c, d).end == 1
    empty = store(D, knows=moving)
    assert read(0, a, b, c, empty).end == 0
    assert read(0, a, b, c, empty).may_end == 1


def test_a_store_that_is_no_replica_any_more_has_no_say() -> None:
    old = store(D, e(0, content=9), knows=member(0, replicas=(A, B, D)), committed=1)
    found = read(0, old, store(A, e(0)), store(B, e(0)))
    assert shown(found) == [(0, 0)]


def test_a_store_with_a_different_log_does_no_harm() -> None:
    knows = member(2)
    a, b = (store(each, e(0, 2), e(1, 2), e(2, 2, end=5), knows=knows, promised=2) for each in (A, B))
    stale = store(C, e(0, 1), e(1, 1, content=91, end=4), e(4, 1, content=94, end=9))
    found = read(0, stale, a, b)
    assert shown(found) == [(0, 0), (1, 1), (2, 2)] and found.end == found.may_end == 5


def test_he_begins_at_the_entry_that_holds_the_offset() -> None:
    knows = member(2)
    a, b = (store(each, e(2, 2, end=5), e(5, 2), knows=knows, promised=2) for each in (A, B))
    stale = store(C, e(3, 1, content=91, end=9))
    found = read(4, stale, a, b)
    assert shown(found) == [(2, 2), (5, 5)] and (found.start, found.end) == (4, 6)


# below the high watermark, and in portions


def test_below_the_high_watermark_the_store_that_knows_it_is_right() -> None:
    """Its log has gaps of compaction, and lacks what it has deleted."""
    a = store(A, e(3), e(7, 2), committed=8, log_start=3)
    b = store(B, e(0), e(1, content=91, end=9))
    found = read(0, a, b)
    assert (found.start, found.end, shown(found)) == (3, 8, [(3, 3), (7, 7)])
    assert read(9, a, b).end == 9


def test_entries_not_read_yet_are_requested_next() -> None:
    a = store(A, e(0), e(1), committed=9, log_end=9)
    b = store(B, e(0), log_end=12)
    found = read(0, a, b)
    assert (found.end, found.may_end) == (2, 12)
    a = store(A, e(0), e(1), committed=1, log_end=7)
    b = store(B, e(0), log_end=7)
    found = read(0, a, b)
    assert (found.end, found.may_end) == (1, 7)


# live replicas


def live(
    spu: SpuId, *entries: Entry, committed: int = 0, promised: int = 1, in_doubt: bool = False, **of: bool | int
) -> StoreAnswer:
    knows = member(policy="live", live=(A, B), has_leader=bool(of.pop("has_leader", False)), **of)  # type: ignore[arg-type]
    return store(spu, *entries, committed=committed, promised=promised, in_doubt=in_doubt, knows=knows)


def test_any_live_replica_has_all_and_knows_how_much_is_acknowledged() -> None:
    found = read(0, live(B, e(0), e(1), committed=1, has_leader=True))
    assert (shown(found), found.end, found.may_end) == ([(0, 0)], 1, 2)


def test_without_a_leader_entries_of_all_live_replicas_are_final() -> None:
    found = read(0, live(A, e(0), e(1), e(2)), live(B, e(0), e(1)), live(C))
    assert (found.end, found.may_end) == (2, 2)


def test_while_somebody_leads_he_may_be_about_to_count_one_more() -> None:
    a, b = live(A, e(0), has_leader=True), live(B, e(0), has_leader=True)
    assert (read(0, a, b).end, read(0, a, b).may_end) == (0, 1)


def test_nor_is_anything_final_when_another_epoch_has_begun() -> None:
    assert read(0, live(A, e(0)), live(B, e(0), promised=2)).end == 0


def test_nor_with_fewer_live_replicas_than_it_takes_to_commit() -> None:
    assert read(0, live(A, e(0), replicas_min=3), live(B, e(0), replicas_min=3)).end == 0


def test_a_live_replica_that_lost_its_end_does_not_bound_what_may_be_acknowledged() -> None:
    found = read(0, live(A, e(0), e(1)), live(B, e(0), in_doubt=True))
    assert (found.end, found.may_end) == (1, 2)


def test_a_replica_that_is_not_live_does_not_count() -> None:
    assert quorum_read(0, [live(C, e(0), committed=1)]) is None
    assert quorum_read(0, [live(B, e(0), committed=1)], live=[A]) is None
    assert quorum_read(0, [live(B, e(0), in_doubt=True)]) is None


def test_the_newest_spec_says_which_replicas_are_live() -> None:
    removed = store(C, e(0, content=9), e(1), committed=2, knows=member(policy="live", live=(A, B, C)))
    newer = store(A, e(0), committed=1, knows=member(policy="live", live=(A, B), version=1))
    found = read(0, removed, newer)
    assert (shown(found), found.may_end) == ([(0, 0)], 1)
