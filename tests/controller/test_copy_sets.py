"""A partition gets other replicas, step by step, and is led by who has all."""

from dataclasses import replace

import pytest
from controller_model import custom

from tailrace.controller.copy_sets import before_change, next_copy_set
from tailrace.controller.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    Spu,
    SpuResolution,
    SpuStatus,
)
from tailrace.protocol.ids import Epoch, SpuId, TopicId

ONE, TWO, THREE, FOUR = map(SpuId, (1, 2, 3, 4))


def spus(*online: int) -> dict[SpuId, Spu]:
    """All of them with store a."""
    found = {}
    for number in (1, 2, 3, 4):
        resolution = SpuResolution.ONLINE if number in online else SpuResolution.OFFLINE
        found[SpuId(number)] = replace(custom(number), status=SpuStatus(resolution, "first", "a"))
    return found


ALL = spus(1, 2, 3, 4)


def partition(
    replicas: tuple[SpuId, ...], live: tuple[SpuId, ...], adding: tuple[SpuId, ...] = (), leader: SpuId = ONE
) -> Partition:
    status = PartitionStatus(PartitionResolution.ONLINE, leader, Epoch(5), "first", dict.fromkeys(live, "a"), 7)
    return Partition("t", TopicId(int=1), 0, PartitionSpec(replicas[0], replicas, adding), status)


def test_what_is_as_it_should_be_stays() -> None:
    before = partition((ONE, TWO), (ONE,))
    assert next_copy_set(before, (ONE, TWO), ALL) == before


def test_new_replicas_come_first_at_another_epoch_of_the_same_leader() -> None:
    before = partition((ONE, TWO), (ONE, TWO))
    after = next_copy_set(before, (TWO, THREE, FOUR), ALL)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO, THREE, FOUR), (THREE, FOUR))
    assert before_change(after) == (ONE, TWO)
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


def test_a_leader_that_stays_goes_on() -> None:
    ready = partition((ONE, TWO, THREE), (ONE, TWO, THREE), (THREE,))
    after = next_copy_set(ready, (THREE, ONE), ALL)
    assert (after.spec.initial_leader, after.status.leader, after.status.epoch) == (THREE, ONE, 6)


def test_a_replica_that_stays_need_not_be_there() -> None:
    ready = partition((ONE, TWO, THREE), (ONE, THREE), (THREE,))
    assert next_copy_set(ready, (TWO, THREE), spus(1, 3)).status.live_replicas == {THREE: "a"}


@pytest.mark.parametrize("live", [(ONE,), (ONE, THREE)])
def test_a_change_is_given_up_at_once(live: tuple[SpuId, ...]) -> None:
    under_way = partition((ONE, TWO, THREE), live, (THREE,))
    after = next_copy_set(under_way, (ONE, TWO), ALL)
    assert after.spec == PartitionSpec(ONE, (ONE, TWO))
    assert after.status.live_replicas == {ONE: "a"}


def test_not_all_that_have_everything_go() -> None:
    before = partition((ONE, TWO), (ONE,))
    assert next_copy_set(before, (TWO,), ALL) == before


def test_the_preferred_leader_may_be_another_without_an_election() -> None:
    before = partition((ONE, TWO), (ONE, TWO))
    after = next_copy_set(before, (TWO, ONE), ALL)
    assert (after.spec, after.status) == (PartitionSpec(TWO, (TWO, ONE)), before.status)


def test_what_was_never_led_has_its_replicas_at_once() -> None:
    before = partition((ONE, TWO), ())
    before = replace(before, status=PartitionStatus(PartitionResolution.OFFLINE))
    after = next_copy_set(before, (THREE, FOUR), spus(3))
    assert after == replace(before, spec=PartitionSpec(THREE, (THREE, FOUR)))


@pytest.mark.parametrize("resolution", [each for each in PartitionResolution if each.value != "Online"])
def test_nothing_changes_while_there_is_an_election(resolution: PartitionResolution) -> None:
    before = partition((ONE, TWO), (ONE, TWO))
    before = replace(before, status=replace(before.status, resolution=resolution))
    assert next_copy_set(before, (ONE, THREE), ALL) == before
