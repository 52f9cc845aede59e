"""The rule by which a leader is elected."""

from dataclasses import replace

import pytest
from controller_model import custom, topic_id

from tailrace.controller.election import elected, has_leader, is_current, live_replicas
from tailrace.controller.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    Spu,
    SpuResolution,
    SpuStatus,
)
from tailrace.controller.observed import LiveReplicasReport
from tailrace.protocol.ids import Epoch, SpuId

ONLINE, OFFLINE, FOUND = PartitionResolution.ONLINE, PartitionResolution.OFFLINE, PartitionResolution.CANDIDATE_FOUND


def spus(**incarnations: str) -> dict[SpuId, Spu]:
    """Those given are online (`s1="a"`: SPU 1 in process a); of the others up to 4, 4 is not even registered."""
    found = {}
    for number in (1, 2, 3):
        incarnation = incarnations.get(f"s{number}")
        resolution = SpuResolution.OFFLINE if incarnation is None else SpuResolution.ONLINE
        found[SpuId(number)] = replace(custom(number), status=SpuStatus(resolution, incarnation or "a"))
    return found


def partition(*live: int, leader: int = 1, epoch: int = 5, resolution: PartitionResolution = ONLINE) -> Partition:
    replicas = tuple(map(SpuId, (1, 2, 3, 4)))
    status = PartitionStatus(resolution, SpuId(leader), Epoch(epoch), "a", tuple(map(SpuId, live)))
    return Partition("t", topic_id(1), 0, PartitionSpec(replicas[0], replicas), status)


def report(**incarnations: str) -> LiveReplicasReport:
    processes = {SpuId(int(name[1:])): incarnation for name, incarnation in incarnations.items()}
    return LiveReplicasReport("a", Epoch(5), tuple(processes), processes)


@pytest.mark.parametrize(
    ("live", "online", "leader", "live_after"),
    [
        ((1, 2, 3), {"s2": "a", "s3": "a"}, 2, (2, 3)),
        ((1, 3), {"s2": "a", "s3": "a"}, 3, (3,)),
        ((1, 2), {"s1": "a", "s2": "a"}, 1, (1, 2)),
        ((1, 2), {"s1": "another", "s2": "a"}, 2, (2,)),
        ((1,), {"s1": "another", "s2": "a"}, 1, (1,)),
        ((1, 2), {"s1": "another"}, 1, (1,)),
    ],
)
def test_the_first_live_replica_that_is_there_leads(
    live: tuple[int, ...], online: dict[str, str], leader: int, live_after: tuple[int, ...]
) -> None:
    found = spus(**online)
    incarnation = found[SpuId(leader)].status.incarnation
    expected = PartitionStatus(FOUND, SpuId(leader), Epoch(6), incarnation, tuple(map(SpuId, live_after)))
    assert elected(partition(*live), found, None) == expected


def test_none_leads_that_was_not_live() -> None:
    before = partition(1, 4)
    reason = "none of its live replicas is online: 1, 4"
    assert elected(before, spus(s2="a", s3="a"), None) == replace(before.status, resolution=OFFLINE, reason=reason)


def test_a_replica_that_started_anew_since_the_last_report_leads_only_if_all_did() -> None:
    before = partition(1, 2, 3)
    assert elected(before, spus(s2="b", s3="a"), report(s1="a", s2="a", s3="a")).leader == 3
    after = elected(before, spus(s2="b", s3="b"), report(s1="a", s2="a", s3="a"))
    assert (after.leader, after.live_replicas) == (2, (2,))


def test_the_first_election_takes_any_replica_that_is_online() -> None:
    before = partition(leader=-1, epoch=-1, resolution=OFFLINE)
    after = elected(before, spus(s2="a", s3="a"), None)
    assert (after.leader, after.epoch, after.live_replicas) == (2, 0, (2,))
    assert elected(before, spus(), None).reason == "none of its SPUs is online: 1, 2, 3, 4"


def test_a_leader_is_there_in_the_process_that_was_elected() -> None:
    assert has_leader(partition(1), spus(s1="a"))
    assert has_leader(partition(1, resolution=FOUND), spus(s1="a"))
    assert not has_leader(partition(1), spus(s1="another"))
    assert not has_leader(partition(1), spus())
    assert not has_leader(partition(1, resolution=OFFLINE), spus(s1="a"))
    assert not has_leader(partition(4, leader=4), spus(s1="a"))


def test_a_report_is_current_from_that_process_at_that_epoch() -> None:
    assert is_current(report(s1="a"), partition(1))
    assert not is_current(None, partition(1))
    assert not is_current(report(s1="a"), partition(1, epoch=6))
    assert not is_current(replace(report(s1="a"), incarnation="another"), partition(1))


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (None, (1, 2)),
        ({"s1": "a", "s2": "a", "s3": "a"}, (1, 2)),
        ({"s2": "b", "s1": "a"}, (1,)),
        ({}, (1,)),
        ({"s4": "a"}, (1,)),
    ],
)
def test_the_leader_and_those_it_counts_are_live_if_they_are_there(
    reported: dict[str, str] | None, expected: tuple[int, ...]
) -> None:
    now = None if reported is None else report(**reported)
    assert live_replicas(partition(1, 2, 3), spus(s1="a", s2="a"), now) == expected
