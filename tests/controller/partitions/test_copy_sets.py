"""A partition gets other replicas, step by step, and is led by who has all.

That nothing is lost on the way, whatever fails, is for `tests/broker/replication/test_simulation.py` to show.
"""

import pytest
from controller_model import custom
from msgspec.structs import replace

from tailrace.cluster.specs import Shelf
from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    Spu,
    SpuResolution,
    SpuStatus,
)
from tailrace.controller.partitions.copy_sets import before_change, coming_and_going, is_changing, next_copy_set
from tailrace.protocol.ids import Epoch, SpuId, TopicId

ONE, TWO, THREE, FOUR = map(SpuId, (1, 2, 3, 4))


def spus(*online: int) -> dict[SpuId, Spu]:
    """Returns SPUs that are online with the store incarnation a."""
    found = {}
    for number in (1, 2, 3, 4):
        resolution = SpuResolution.ONLINE if number in online else SpuResolution.OFFLINE
        found[SpuId(number)] = replace(custom(number), status=SpuStatus(resolution, "first", "a"))
    return found


ALL = spus(1, 2, 3, 4)


def partition(
    replicas: tuple[SpuId, ...],
    live: tuple[SpuId, ...],
    adding: tuple[SpuId, ...] = (),
    copy_sets: tuple[tuple[SpuId, ...], ...] = (),
) -> Partition:
    sets = (tuple(spu for spu in replicas if spu not in adding),) if adding else copy_sets
    status = PartitionStatus(PartitionResolution.ONLINE, ONE, Epoch(5), "first", dict.fromkeys(live, "a"), 7)
    return Partition("t", TopicId(int=1), 0, PartitionSpec(replicas[0], replicas, sets), status)


def test_a_partition_with_the_wanted_replicas_stays_unchanged() -> None:
    before = partition((ONE, TWO), (ONE,))
    assert next_copy_set(before, (ONE, TWO), ALL) == before


@pytest.mark.parametrize("policy", ["live", "nrw:2,1,2"])
def test_whatever_replicas_it_gets_what_is_on_shelves_stays_there(policy: str) -> None:
    shelved = partition((ONE, TWO), (ONE, TWO))
    shelves = (Shelf(3, 7, (FOUR,)),)
    now = replace(shelved, spec=replace(shelved.spec, shelved_from=5, shelves=shelves))
    seen = []
    for _ in range(6):
        has_taken_over = len(now.spec.copy_sets) > 1
        after = next_copy_set(now, (THREE, FOUR), ALL, policy, has_taken_over=has_taken_over)
        live = dict.fromkeys(after.spec.replicas, "a")
        now = replace(after, status=replace(after.status, resolution=PartitionResolution.ONLINE, live_replicas=live))
        seen.append((now.spec.shelved_from, now.spec.shelves))
    assert (now.spec.replicas, now.spec.copy_sets) == ((THREE, FOUR), ())
    assert set(seen) == {(5, shelves)}
    never_led = replace(now, status=PartitionStatus())
    assert next_copy_set(never_led, (ONE, TWO), ALL).spec == PartitionSpec(ONE, (ONE, TWO), (), 5, shelves)


def test_new_replicas_come_first_at_another_epoch_of_the_same_leader() -> None:
    before = partition((ONE, TWO), (ONE, TWO))
    after = next_copy_set(before, (TWO, THREE, FOUR), ALL)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO, THREE, FOUR), ((ONE, TWO),))
    assert (before_change(after), after.spec.adding) == ((ONE, TWO), (THREE, FOUR))
    assert after.status == replace(
        before.status, resolution=PartitionResolution.CANDIDATE_FOUND, leader=ONE, epoch=Epoch(6)
    )


def test_others_go_when_the_new_ones_are_live_and_not_before() -> None:
    for live in ((ONE, TWO), (ONE, TWO, THREE)):
        waiting = partition((ONE, TWO, THREE, FOUR), live, (THREE, FOUR))
        assert next_copy_set(waiting, (TWO, THREE, FOUR), ALL) == waiting
    ready = partition((ONE, TWO, THREE, FOUR), (ONE, TWO, THREE, FOUR), (THREE, FOUR))
    assert next_copy_set(ready, (TWO, THREE, FOUR), spus(1, 2, 3)) == ready, "one that was live is away"
    after = next_copy_set(ready, (TWO, THREE, FOUR), ALL)
    assert after.spec == PartitionSpec(TWO, (TWO, THREE, FOUR))
    assert (after.status.leader, after.status.epoch) == (TWO, 6), "the leader goes, too"
    assert (after.status.live_replicas, after.status.live_version) == ({TWO: "a", THREE: "a", FOUR: "a"}, 8)


def test_a_replica_with_failed_storage_replaces_no_other() -> None:
    ready = partition((ONE, TWO, THREE, FOUR), (ONE, TWO, THREE, FOUR), (THREE, FOUR))
    assert next_copy_set(ready, (TWO, THREE, FOUR), ALL, failed=(THREE,)) == ready
    after = next_copy_set(ready, (TWO, THREE, FOUR), ALL, failed=(TWO,))
    assert after.status.leader == THREE, "the leader goes, and the next one could not lead"
    smaller = partition((ONE, TWO, THREE), (ONE, TWO, THREE))
    assert next_copy_set(smaller, (ONE, TWO), ALL, failed=(TWO,)) == smaller, "one alone would have it all"


def test_a_leader_that_stays_goes_on() -> None:
    ready = partition((ONE, TWO, THREE), (ONE, TWO, THREE), (THREE,))
    after = next_copy_set(ready, (THREE, ONE), ALL)
    assert (after.spec.initial_leader, after.status.leader, after.status.epoch) == (THREE, ONE, 6)


def test_a_replica_that_stays_need_not_be_there_if_two_others_are() -> None:
    ready = partition((ONE, TWO, THREE, FOUR), (ONE, THREE, FOUR), (THREE, FOUR))
    after = next_copy_set(ready, (TWO, THREE, FOUR), spus(1, 3, 4))
    assert after.status.live_replicas == {THREE: "a", FOUR: "a"}


def test_no_step_leaves_a_single_store_with_everything() -> None:
    waiting = partition((THREE, ONE, TWO), (ONE, TWO))
    assert next_copy_set(waiting, (ONE, THREE), ALL) == waiting, "three does not have all yet"
    for live in ((ONE, TWO, THREE), (ONE, THREE)):
        after = next_copy_set(partition((THREE, ONE, TWO), live), (ONE, THREE), ALL)
        assert after.spec == PartitionSpec(ONE, (ONE, THREE))
    assert next_copy_set(waiting, (ONE,), ALL).spec == PartitionSpec(ONE, (ONE,)), "it is to be one"
    alone = next_copy_set(partition((THREE, ONE, TWO), (ONE,)), (ONE, THREE), ALL)
    assert alone.spec == PartitionSpec(ONE, (ONE, THREE)), "it is one as it is"


@pytest.mark.parametrize("live", [(ONE,), (ONE, TWO), (ONE, TWO, THREE)])
def test_a_change_is_given_up_at_once(live: tuple[SpuId, ...]) -> None:
    under_way = partition((ONE, TWO, THREE), live, (THREE,))
    after = next_copy_set(under_way, (ONE, TWO), ALL)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO))
    assert after.status.live_replicas == dict.fromkeys((spu for spu in live if spu != THREE), "a")


def test_not_all_that_have_everything_go() -> None:
    before = partition((ONE, TWO), (ONE,))
    assert next_copy_set(before, (TWO,), ALL) == before


def test_the_preferred_leader_may_be_another_without_an_election() -> None:
    before = partition((ONE, TWO), (ONE, TWO))
    after = next_copy_set(before, (TWO, ONE), ALL)
    assert (after.spec, after.status) == (PartitionSpec(TWO, (TWO, ONE)), before.status)


def test_a_partition_without_a_first_leader_changes_at_once() -> None:
    before = partition((ONE, TWO), ())
    before = replace(before, status=PartitionStatus(PartitionResolution.OFFLINE))
    after = next_copy_set(before, (THREE, FOUR), spus(3))
    assert after == replace(before, spec=PartitionSpec(THREE, (THREE, FOUR)))


@pytest.mark.parametrize("resolution", [each for each in PartitionResolution if each.value != "Online"])
def test_nothing_changes_while_there_is_an_election(resolution: PartitionResolution) -> None:
    before = partition((ONE, TWO), (ONE, TWO))
    before = replace(before, status=replace(before.status, resolution=resolution))
    assert next_copy_set(before, (ONE, THREE), ALL) == before


# with quorum policies

MAJORITY = "majority"


def test_with_the_live_policy_adding_a_replica_takes_an_epoch_and_catching_up_takes_none() -> None:
    more = next_copy_set(partition((ONE, TWO), (ONE, TWO)), (ONE, TWO, THREE), ALL)
    assert (more.spec.adding, more.status.epoch) == ((THREE,), 6)
    live = dict.fromkeys((ONE, TWO, THREE), "a")
    there = replace(with_leader(more), status=replace(with_leader(more).status, live_replicas=live))
    done = next_copy_set(there, (ONE, TWO, THREE), ALL)
    assert (done.spec, done.status.epoch) == (PartitionSpec(ONE, (ONE, TWO, THREE)), 6)


def test_a_replica_leaves_although_one_of_three_that_stay_is_offline() -> None:
    before = partition((ONE, TWO, THREE, FOUR), (ONE, THREE, FOUR))
    assert before.spec.adding == ()
    assert next_copy_set(before, (ONE, TWO, FOUR), spus(1, 3, 4)).spec.replicas == (ONE, TWO, FOUR)
    assert next_copy_set(before, (ONE, TWO), spus(1, 3, 4)) == before


def taking_over(
    live: tuple[SpuId, ...], *sets: tuple[SpuId, ...], adding: tuple[SpuId, ...] = (), leader: SpuId = ONE
) -> Partition:
    replicas = tuple(dict.fromkeys(spu for each in reversed(sets) for spu in each))
    found = partition((*replicas, *adding), live, copy_sets=sets)
    return replace(found, status=replace(found.status, leader=leader))


def test_there_too_new_replicas_come_first_and_have_no_say_yet() -> None:
    before = partition((ONE, TWO, THREE), (ONE, TWO))
    after = next_copy_set(before, (ONE, TWO, FOUR), spus(1, 2, 4), MAJORITY)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO, THREE, FOUR), ((ONE, TWO, THREE),))
    assert (after.status.leader, after.status.epoch, after.spec.copy_set) == (ONE, 6, (ONE, TWO, THREE))
    assert next_copy_set(with_leader(after), (ONE, TWO, FOUR), spus(1, 2, 4), MAJORITY) == with_leader(after)


def test_when_they_have_all_their_set_takes_over_and_the_one_before_is_still_asked() -> None:
    before = taking_over((ONE, TWO, FOUR), (ONE, TWO, THREE), adding=(FOUR,))
    after = next_copy_set(before, (FOUR, TWO, ONE), spus(1, 2, 4), MAJORITY)
    assert after.spec == PartitionSpec(FOUR, (FOUR, TWO, ONE, THREE), ((ONE, TWO, THREE), (FOUR, TWO, ONE)))
    assert (after.status.leader, after.status.epoch, after.spec.adding) == (ONE, 6, ())
    assert is_changing(after, (FOUR, TWO, ONE)) and before_change(after) == (ONE, TWO, THREE)
    assert coming_and_going(after, (FOUR, TWO, ONE)) == ((FOUR,), (THREE,))


def test_a_set_that_could_not_commit_does_not_take_over() -> None:
    before = taking_over((ONE, TWO, THREE, FOUR), (ONE, TWO, THREE), adding=(FOUR,))
    for online, goes_on in ((spus(1, 2, 4), True), (spus(1, 3, 4), False)):
        assert (next_copy_set(before, (TWO, FOUR), online, MAJORITY) != before) == goes_on


def test_the_set_before_goes_when_the_leader_says_so() -> None:
    before = taking_over((ONE, TWO, FOUR), (ONE, TWO, THREE), (ONE, TWO, FOUR))
    wanted = (ONE, TWO, FOUR)
    assert next_copy_set(before, wanted, spus(1, 2, 4), MAJORITY) == before
    after = next_copy_set(before, wanted, spus(1, 2, 4), MAJORITY, has_taken_over=True)
    assert after.spec == PartitionSpec(ONE, wanted)
    assert (after.status.leader, after.status.epoch) == (ONE, 6), "from this epoch on nobody else is asked"
    assert not is_changing(after, wanted)


def test_a_set_also_takes_over_if_all_of_it_stays() -> None:
    """No replica leaves, but the number of stores that commit changes."""
    wanted = (ONE, TWO, THREE, FOUR)
    before = taking_over(wanted, (ONE, TWO, THREE), wanted)
    assert is_changing(before, wanted)
    after = next_copy_set(before, wanted, ALL, MAJORITY, has_taken_over=True)
    assert (after.spec, after.status.epoch) == (PartitionSpec(ONE, wanted), 6)


def test_a_change_to_fewer_is_one_of_sets_as_well() -> None:
    before = partition((ONE, TWO, THREE), (ONE, TWO, THREE))
    after = next_copy_set(before, (TWO, THREE), ALL, MAJORITY)
    assert after.spec == PartitionSpec(TWO, (TWO, THREE, ONE), ((ONE, TWO, THREE), (TWO, THREE)))
    assert (after.status.leader, after.status.epoch) == (TWO, 6), "the leader is one of those that commit"


def test_a_set_that_is_given_up_early_must_be_taken_over_from() -> None:
    """Records may have been committed by the set that is given up."""
    before = taking_over((ONE, TWO, FOUR), (ONE, TWO, THREE), (ONE, TWO, FOUR))
    after = next_copy_set(before, (ONE, TWO, THREE), spus(1, 2, 4), MAJORITY)
    sets = ((ONE, TWO, THREE), (ONE, TWO, FOUR), (ONE, TWO, THREE))
    assert after.spec == PartitionSpec(ONE, (ONE, TWO, THREE, FOUR), sets)
    assert before_change(after) == (ONE, TWO, THREE)
    again = next_copy_set(with_leader(after), (ONE, TWO, FOUR), spus(1, 2, 4), MAJORITY)
    assert len(again.spec.copy_sets) == 3, "to and fro does not make ever more"


def test_an_added_replica_that_is_not_wanted_any_more_leaves() -> None:
    """The earlier set has taken over, and another change has begun in the meantime."""
    before = taking_over((ONE, TWO), (ONE, TWO, THREE), (ONE, TWO), adding=(FOUR,))
    after = next_copy_set(before, (ONE, TWO, THREE), ALL, MAJORITY, has_taken_over=True)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO)), "three is added by the next step"


def test_replicas_that_are_given_up_before_they_form_a_set_leave_at_once() -> None:
    before = taking_over((ONE, TWO), (ONE, TWO, THREE), adding=(FOUR,))
    after = next_copy_set(before, (ONE, TWO, THREE), ALL, MAJORITY)
    assert (after.spec, after.status.epoch) == (PartitionSpec(ONE, (ONE, TWO, THREE)), 6)


def test_a_change_is_finished_before_the_next_one_begins() -> None:
    before = taking_over((ONE, TWO, FOUR), (ONE, TWO, THREE), (ONE, TWO, FOUR))
    after = next_copy_set(before, (ONE, THREE), ALL, MAJORITY, has_taken_over=True)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO, FOUR))
    assert next_copy_set(with_leader(after), (ONE, THREE), ALL, MAJORITY).spec.adding == (THREE,)


@pytest.mark.parametrize(("policy", "others"), [("majority", (2,)), ("nrw:3,1,3", ()), ("nrw:3,3,1", (2, 3))])
def test_nothing_changes_where_the_next_leader_would_not_be_answered_by_enough(
    policy: str, others: tuple[int, ...]
) -> None:
    before = partition((ONE, TWO, THREE), (ONE, TWO, THREE))
    wanted = (ONE, TWO, FOUR)
    assert next_copy_set(before, wanted, spus(1, *others, 4), policy).spec.adding == (FOUR,)
    if others:
        assert next_copy_set(before, wanted, spus(1, *others[1:], 4), policy) == before


def test_a_dead_replica_is_replaced_even_if_all_must_commit() -> None:
    """Otherwise nothing could be committed any more."""
    before = taking_over((ONE, TWO, FOUR), (ONE, TWO, THREE), adding=(FOUR,))
    after = next_copy_set(before, (ONE, TWO, FOUR), spus(1, 2, 4), "nrw:3,1,3")
    assert after.spec.copy_set == (ONE, TWO, FOUR)


def with_leader(partition: Partition) -> Partition:
    return replace(partition, status=replace(partition.status, resolution=PartitionResolution.ONLINE))
