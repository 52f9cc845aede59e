"""The rules for elections of leaders and for changes of live replicas."""

from collections.abc import Mapping

import pytest
from controller_model import custom, reported, topic_id
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
from tailrace.controller.partitions.election import (
    UNKNOWN_STORE,
    Decision,
    ElectionRules,
    can_return,
    decide,
    has_leader,
    is_current,
    is_sure,
    is_unclean,
    status_after_report,
)
from tailrace.controller.state.observed import FailedStorage, PartitionReports, ReportedLogEnd
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

ELECTION, FOUND = PartitionResolution.ELECTION, PartitionResolution.CANDIDATE_FOUND
ONLINE, OFFLINE = PartitionResolution.ONLINE, PartitionResolution.OFFLINE
ONE, TWO, THREE, FOUR, FIVE = map(SpuId, (1, 2, 3, 4, 5))


def spus(**stores: str) -> dict[SpuId, Spu]:
    """Those given are online (`s1="a"`: SPU 1 with store a, in the process "of a"); of the others up to 4, 4 is not
    even registered."""
    found = {}
    for number in (1, 2, 3):
        store = stores.get(f"s{number}", "a")
        resolution = SpuResolution.ONLINE if f"s{number}" in stores else SpuResolution.OFFLINE
        found[SpuId(number)] = replace(custom(number), status=SpuStatus(resolution, f"of {store}", store))
    return found


def partition(*live: int, leader: int = 1, epoch: int = 5, resolution: PartitionResolution = ONLINE) -> Partition:
    """Returns a partition with replicas on SPUs 1 to 4, led by SPU 1, whose live replicas have the store a."""
    replicas = tuple(map(SpuId, (1, 2, 3, 4)))
    live_replicas = dict.fromkeys(map(SpuId, live), "a")
    status = PartitionStatus(resolution, SpuId(leader), Epoch(epoch), "of a", live_replicas, 7)
    return Partition("t", topic_id(1), 0, PartitionSpec(replicas[0], replicas), status)


def ends(epoch: int = 5, **log_ends: int) -> PartitionReports:
    said = {SpuId(int(name[1:])): ReportedLogEnd("of a", Epoch(epoch), end) for name, end in log_ends.items()}
    return PartitionReports(log_ends=said)


def silent(*names: int, store: str = "a") -> PartitionReports:
    return PartitionReports(silent=dict.fromkeys(map(SpuId, names), f"of {store}"))


def elected(before: Partition, leader: int, online: Mapping[SpuId, Spu]) -> Decision:
    """Returns the partition as elected in the next epoch, with the same live set."""
    incarnation = online[SpuId(leader)].status.incarnation
    epoch = Epoch(before.status.epoch + 1)
    return Decision(
        replace(before.status, resolution=FOUND, leader=SpuId(leader), epoch=epoch, incarnation=incarnation, reason="")
    )


FAILED = FailedStorage("of a", Epoch(5))
MENDED = replace(FAILED, has_opened=True)

# the first leader


def test_a_new_partition_is_offline_until_it_is_looked_at() -> None:
    before = partition(leader=-1, epoch=-1, resolution=PartitionResolution.NONE)
    after = decide(before, spus(s1="a"), PartitionReports()).status
    assert (after.resolution, after.reason) == (OFFLINE, "no leader has been elected yet")


def test_the_first_leader_is_the_first_replica_that_is_online() -> None:
    before = partition(leader=-1, epoch=-1, resolution=OFFLINE)
    after = decide(before, spus(s2="b", s3="a"), PartitionReports()).status
    assert (after.resolution, after.leader, after.epoch) == (FOUND, TWO, 0)
    assert after.live_replicas == {TWO: "b", THREE: "a"}
    assert decide(before, spus(), PartitionReports()).status.reason == "none of its SPUs is online: 1, 2, 3, 4"


# among sure ones


@pytest.mark.parametrize(
    ("live", "online", "leader"),
    [
        ((1, 3), {"s2": "a", "s3": "a"}, 3),
        ((1, 2), {"s1": "b", "s2": "a"}, 2),
        ((1, 2, 3), {"s1": "b", "s2": "b", "s3": "a"}, 3),
        ((1, 4), {"s1": "a", "s2": "a"}, 1),
    ],
)
def test_a_lone_candidate_leads_without_being_asked(live: tuple[int, ...], online: dict[str, str], leader: int) -> None:
    for resolution in (ELECTION, OFFLINE):
        before, found = partition(*live, resolution=resolution), spus(**online)
        assert decide(before, found, PartitionReports()) == elected(before, leader, found)


def test_several_are_asked_and_the_one_with_the_smallest_lag_leads() -> None:
    before, found = partition(1, 2, 3), spus(s2="a", s3="a")
    asking = decide(before, found, PartitionReports())
    assert asking == Decision(replace(before.status, resolution=ELECTION), (TWO, THREE))
    during = replace(before, status=asking.status)
    assert decide(during, found, ends(s2=4)) == Decision(asking.status, (THREE,))
    assert decide(during, found, ends(s2=4, s3=5)) == elected(during, 3, found)
    assert decide(during, found, ends(s2=5, s3=5)) == elected(during, 2, found)
    assert decide(during, found, ends(s2=5, s3=5)).status.live_replicas == before.status.live_replicas


def test_a_busy_candidate_is_awaited_only_if_all_are_busy() -> None:
    before, found = partition(1, 2, 3, resolution=ELECTION), spus(s1="a", s2="a", s3="a")
    reports = ends(s2=4, s3=3)
    reports.log_ends[ONE] = ReportedLogEnd("of a", Epoch(5), None)
    assert decide(before, found, reports) == elected(before, 2, found)
    for spu in (TWO, THREE):
        reports.log_ends[spu] = ReportedLogEnd("of a", Epoch(5), None)
    assert decide(before, found, reports) == Decision(before.status), "all of them were asked"


def test_the_status_is_election_before_there_is_a_candidate() -> None:
    """Even if all log ends are known, so that people and other SPUs see that there is an election."""
    before = partition(1, 2, 3)
    assert decide(before, spus(s2="a", s3="a"), ends(s2=4, s3=5)).status.resolution is ELECTION


def test_log_ends_of_other_elections_or_processes_do_not_count() -> None:
    before = partition(1, 2, 3, resolution=ELECTION)
    assert decide(before, spus(s2="a", s3="a"), ends(epoch=4, s2=4, s3=5)).asks == (TWO, THREE)
    again = spus(s2="a", s3="a")
    again[THREE] = replace(again[THREE], status=replace(again[THREE].status, incarnation="cleanly restarted"))
    assert decide(before, again, ends(s2=4, s3=5)).asks == (THREE,)


def test_none_leads_that_was_not_live() -> None:
    before = partition(1, 4)
    reason = "none of its live replicas is online: 1, 4"
    after = Decision(replace(before.status, resolution=OFFLINE, reason=reason))
    assert decide(before, spus(s2="a", s3="a"), PartitionReports()) == after


# SPUs that do not respond


def test_a_candidate_that_does_not_respond_is_followed_by_the_next_until_none_is_left() -> None:
    before, found = partition(1, 2, 3, leader=2, resolution=FOUND), spus(s1="a", s2="a", s3="a")
    assert decide(before, found, PartitionReports()) == Decision(before.status), "it still has time"
    assert decide(before, found, silent(2)).asks == (ONE, THREE)
    assert decide(before, found, silent(2, 3)) == elected(before, 1, found)
    nobody = decide(before, found, silent(2, 3, 1)).status
    assert (nobody.resolution, nobody.epoch) == (OFFLINE, 5)
    assert nobody.reason == "no live replica responds: 2, 1, 3"


def test_silence_is_of_one_process_and_a_leader_that_has_reported_is_not_deposed_by_it() -> None:
    before = partition(1, 2, resolution=OFFLINE)
    assert decide(before, spus(s1="a"), silent(1, store="b")).status.resolution is FOUND
    online = partition(1, 2)
    assert decide(online, spus(s1="a", s2="a"), silent(1)) == Decision(online.status)
    found = partition(1, 2, resolution=FOUND)
    late = replace(silent(1), live_replicas=reported(found))
    assert decide(found, spus(s1="a", s2="a"), late).status.resolution is ONLINE


def test_a_leader_whose_storage_has_failed_is_followed_at_once_and_leads_no_more_in_that_process() -> None:
    before, found = partition(1, 2), spus(s1="a", s2="a")
    reports = PartitionReports(live_replicas=reported(before), failed={ONE: FAILED})
    assert decide(before, found, reports) == elected(before, 2, found)
    alone = partition(1)
    assert decide(alone, found, reports).status.reason == "storage has failed: 1"
    assert decide(before, found, replace(reports, silent={TWO: "of a"})).status.reason == (
        "storage has failed: 1; no live replica responds: 2"
    )
    again = spus(s1="a")
    again[ONE] = replace(again[ONE], status=replace(again[ONE].status, incarnation="restarted"))
    offline = partition(1, resolution=OFFLINE)
    assert decide(offline, again, reports) == elected(offline, 1, again)


# when all stopped uncleanly


def test_then_all_are_waited_for() -> None:
    before = partition(1, 2, 3)
    after = decide(before, spus(s1="b", s3="b"), PartitionReports()).status
    assert (after.resolution, after.reason) == (
        OFFLINE,
        "its live replicas that are online stopped uncleanly: 1, 3; it waits for the others: 2",
    )
    sure = spus(s1="b", s2="a", s3="b")
    assert decide(before, sure, PartitionReports()) == elected(before, 2, sure), "unless one comes that has it all"


def test_then_the_only_one_leads_without_being_asked() -> None:
    before, found = partition(1), spus(s1="b", s2="a")
    after = decide(before, found, PartitionReports()).status
    assert after == replace(elected(before, 1, found).status, was_unclean=True)


def test_then_only_the_one_with_the_most_may_lead() -> None:
    before, found = partition(1, 2, resolution=ELECTION), spus(s1="b", s2="b")
    assert decide(before, found, PartitionReports()).asks == (ONE, TWO)
    said = {spu: ReportedLogEnd("of b", Epoch(5), end) for spu, end in ((ONE, 7), (TWO, 9))}
    assert decide(before, found, PartitionReports(log_ends={ONE: said[ONE]})).asks == (TWO,)
    decision = decide(before, found, PartitionReports(log_ends=said))
    # A replica that had left the live set before may have more committed records.
    assert decision.status == replace(elected(before, 2, found).status, was_unclean=True)
    one_is_not_ready = {**said, TWO: ReportedLogEnd("of b", Epoch(5), None)}
    assert decide(before, found, PartitionReports(log_ends=one_is_not_ready)) == Decision(before.status)
    after = decide(before, found, PartitionReports(log_ends=said, silent={TWO: "of b"})).status
    assert (after.resolution, after.reason) == (
        OFFLINE,
        "all live replicas stopped uncleanly, and not all respond: 2",
    )


# with quorum policies


BY_QUORUM = ElectionRules(by_quorum=True)


def test_by_quorum_any_replica_may_lead_and_is_live_then() -> None:
    before = partition(1, 2, resolution=ELECTION)
    alone = decide(before, spus(s3="b"), PartitionReports(), BY_QUORUM).status
    assert (alone.resolution, alone.leader, alone.epoch) == (FOUND, THREE, 6)
    assert (alone.live_replicas, alone.live_version) == ({ONE: "a", TWO: "a", THREE: UNKNOWN_STORE}, 8)
    asking = decide(before, spus(s2="b", s3="a"), PartitionReports(), BY_QUORUM)
    assert (asking.status, asking.asks) == (before.status, (TWO, THREE))
    live = decide(before, spus(s1="a"), PartitionReports(), BY_QUORUM).status
    assert (live.leader, live.live_replicas, live.live_version) == (ONE, before.status.live_replicas, 7)


def test_a_leader_elected_by_quorum_is_sure_once_it_leads() -> None:
    before, found = partition(1, 2, resolution=ELECTION), spus(s3="b")
    candidate = replace(before, status=decide(before, found, PartitionReports(), BY_QUORUM).status)
    led = status_after_report(candidate, spus(s1="a", s3="b"), reported(candidate, ((ONE, ""), (THREE, ""))))
    assert led.live_replicas == {ONE: "a", THREE: "b"}
    # If the new leader fails first, its entry stays as it was while another one leads.
    by_one = replace(candidate, status=elected(candidate, 1, spus(s1="a")).status)
    after = status_after_report(by_one, spus(s1="a"), reported(by_one, ((ONE, ""), (THREE, ""))))
    assert after.live_replicas == {ONE: "a", THREE: UNKNOWN_STORE}


def test_a_replica_that_is_well_again_may_lead_in_the_next_epoch() -> None:
    before, found = partition(1), spus(s1="a")
    assert decide(before, found, PartitionReports(failed={ONE: MENDED})) == elected(before, 1, found)


def test_by_quorum_somebody_must_be_there_and_respond() -> None:
    before = partition(1, 2)
    assert decide(before, spus(), PartitionReports(), BY_QUORUM).status.reason == "none of its replicas is online"
    after = decide(before, spus(s3="a"), silent(3), BY_QUORUM).status
    assert (after.resolution, after.reason) == (OFFLINE, "no replica responds: 3")


# unclean elections


@pytest.mark.parametrize("online", [{"s3": "b"}, {"s1": "b", "s3": "b"}])
def test_an_unclean_election_needs_a_config_and_leaves_only_the_leader_live(online: dict[str, str]) -> None:
    before, found = partition(1, 2, resolution=ELECTION), spus(**online)
    assert decide(before, found, PartitionReports()).status.resolution is OFFLINE
    said = {spu: ReportedLogEnd("of b", Epoch(5), end) for spu, end in ((ONE, 7), (THREE, 9))}
    after = decide(before, found, PartitionReports(log_ends=said), ElectionRules(unclean=True)).status
    assert (after.resolution, after.leader, after.epoch) == (FOUND, THREE, 6)
    assert (after.live_replicas, after.live_version) == ({THREE: "b"}, 8)


def said_by_three() -> PartitionReports:
    return PartitionReports(log_ends={THREE: ReportedLogEnd("of a", Epoch(5), 9)})


def test_an_unclean_leader_must_respond_even_if_it_is_the_only_candidate() -> None:
    before, found, unclean = partition(1, 2), spus(s3="a"), ElectionRules(unclean=True)
    asking = decide(before, found, PartitionReports(), unclean)
    assert (asking.status.resolution, asking.asks) == (ELECTION, (THREE,))
    asked = replace(before, status=asking.status)
    assert decide(asked, found, silent(3), unclean).status.resolution is OFFLINE
    assert decide(asked, found, said_by_three(), unclean).status.leader == THREE


def test_the_status_records_an_unclean_election() -> None:
    before = partition(1, 2, resolution=ELECTION)
    unclean = decide(before, spus(s3="a"), said_by_three(), ElectionRules(unclean=True)).status
    assert unclean.was_unclean
    after = decide(replace(before, status=unclean), spus(s3="b"), PartitionReports()).status
    assert after.epoch > unclean.epoch and after.was_unclean


def test_an_unclean_election_asks_for_log_ends_only_if_no_clean_one_is_possible() -> None:
    unclean = ElectionRules(unclean=True)
    before, found = partition(1, resolution=OFFLINE), spus(s2="a", s3="a")
    asking = decide(before, found, PartitionReports(), unclean)
    assert (asking.status.resolution, asking.asks) == (ELECTION, (TWO, THREE))
    assert decide(before, found, silent(2, 3), unclean).status.reason == "none of its live replicas is online: 1"
    before, found = partition(1, 2), spus(s2="a", s3="a")
    assert decide(before, found, PartitionReports(), unclean) == elected(before, 2, found)


def test_only_an_unclean_election_takes_somebody_out() -> None:
    before = partition(1, 2, resolution=ELECTION)
    clean = replace(before, status=decide(before, spus(s2="a"), PartitionReports()).status)
    assert not is_unclean(before, clean)
    unclean = replace(before, status=decide(before, spus(s3="a"), said_by_three(), ElectionRules(unclean=True)).status)
    assert is_unclean(before, unclean)
    moved = replace(unclean, spec=PartitionSpec(THREE, (THREE,)))
    assert not is_unclean(before, moved)


# leaders and sure replicas


def test_a_leader_is_there_in_the_process_that_was_elected() -> None:
    assert has_leader(partition(1), spus(s1="a"), PartitionReports())
    assert has_leader(partition(1, resolution=FOUND), spus(s1="a"), PartitionReports())
    assert not has_leader(partition(1), spus(s1="another"), PartitionReports())
    assert not has_leader(partition(1), spus(), PartitionReports())
    assert not has_leader(partition(1, resolution=OFFLINE), spus(s1="a"), PartitionReports())
    assert not has_leader(partition(1, resolution=ELECTION), spus(s1="a"), PartitionReports())
    assert not has_leader(partition(4, leader=4), spus(s1="a"), PartitionReports())
    assert not has_leader(partition(1), spus(s1="a"), PartitionReports(failed={ONE: FAILED}))
    assert not has_leader(partition(1, epoch=6), spus(s1="a"), PartitionReports(failed={ONE: FAILED}))
    assert not has_leader(partition(1), spus(s1="a"), PartitionReports(failed={ONE: MENDED}))
    assert has_leader(partition(1, epoch=6), spus(s1="a"), PartitionReports(failed={ONE: MENDED}))


def test_a_replica_is_sure_if_it_is_online_with_the_recorded_store() -> None:
    live = {ONE: "a", TWO: "a", FOUR: "a"}
    assert is_sure(ONE, live, spus(s1="a"))
    for spu, found in ((ONE, spus(s1="b")), (ONE, spus()), (FOUR, spus()), (THREE, spus(s3="a"))):
        assert not is_sure(spu, live, found)


def test_the_preferred_replica_may_lead_again_when_it_is_sure_and_responds() -> None:
    online = spus(s1="a", s2="a")
    before = partition(1, 2, leader=2)
    assert can_return(before, online, PartitionReports())
    assert not can_return(before, spus(s1="b", s2="a"), PartitionReports())
    assert not can_return(before, spus(s2="a"), PartitionReports())
    assert not can_return(before, online, silent(1))
    assert not can_return(before, online, PartitionReports(failed={ONE: FAILED}))
    assert not can_return(partition(2, leader=2), online, PartitionReports())
    assert not can_return(partition(1, 2, leader=2, resolution=FOUND), online, PartitionReports())
    assert not can_return(partition(1, 2), online, PartitionReports())


# reports of leaders


def test_a_report_is_current_from_that_process_at_that_epoch() -> None:
    said = reported(partition(1))
    assert is_current(said, partition(1))
    assert not is_current(said, partition(1, epoch=6))
    assert not is_current(said, partition(1, leader=2))
    assert not is_current(replace(said, incarnation="another"), partition(1))
    found = partition(1, resolution=FOUND)
    assert (
        decide(found, spus(s1="a"), PartitionReports(live_replicas=replace(said, epoch=Epoch(4)))).status.resolution
        is FOUND
    )
    assert decide(found, spus(s1="a"), PartitionReports(live_replicas=said)).status.resolution is ONLINE


def test_proposed_live_replicas_are_stored_in_the_order_of_the_replicas() -> None:
    before, found = partition(1, 2, resolution=FOUND), spus(s1="a", s3="b")
    after = status_after_report(before, found, reported(before, ((THREE, "b"), (TWO, ""), (ONE, ""))))
    assert after == replace(
        before.status, resolution=ONLINE, live_replicas={ONE: "a", TWO: "a", THREE: "b"}, live_version=8
    )
    assert list(after.live_replicas) == [1, 2, 3]
    alone = status_after_report(before, found, reported(before, ((ONE, ""),)))
    assert (alone.live_replicas, alone.live_version) == ({ONE: "a"}, 8)


@pytest.mark.parametrize(
    "members",
    [
        ((ONE, ""), (THREE, "a")),  # its store has changed since
        ((ONE, ""), (THREE, "")),  # no incarnation is stored for it
        ((ONE, ""), (FOUR, "a")),  # it is not registered
        ((ONE, ""), (FIVE, "a")),  # it has no replica
    ],
)
def test_a_refused_proposal_raises_the_version(members: tuple[tuple[SpuId, str], ...]) -> None:
    before = partition(1, 2, resolution=FOUND)
    online = spus(s1="a", s2="a", s3="b") | {
        FIVE: replace(custom(5), status=SpuStatus(SpuResolution.ONLINE, "of a", "a"))
    }
    after = status_after_report(before, online, reported(before, members))
    assert after == replace(before.status, resolution=ONLINE, live_version=8)


def test_an_spu_that_has_never_been_heard_of_cannot_be_live() -> None:
    before = partition(1, 2, resolution=FOUND)
    after = status_after_report(before, spus(s1="a", s2="a", s3=""), reported(before, ((ONE, ""), (THREE, ""))))
    assert after == replace(before.status, resolution=ONLINE, live_version=8)


def test_a_member_stays_as_it_is_stored_whatever_happened_to_it() -> None:
    before = partition(1, 2, 3)
    for online in (spus(s1="a"), spus(s1="a", s2="b")):
        for stays in ("", "a"):
            after = status_after_report(before, online, reported(before, ((ONE, ""), (TWO, stays))))
            assert (after.live_replicas, after.live_version) == ({ONE: "a", TWO: "a"}, 8)


def test_a_proposal_from_another_version_changes_nothing() -> None:
    before = partition(1, 2, resolution=FOUND)
    for version in (6, 8):
        said = replace(reported(before, ((ONE, ""),)), version=version)
        assert status_after_report(before, spus(s1="a"), said) == replace(before.status, resolution=ONLINE)


def test_a_leader_is_sure_with_its_current_store() -> None:
    before, found = partition(1, 2, resolution=FOUND), spus(s1="b", s2="b")
    before = replace(before, status=replace(before.status, incarnation="of b"))
    after = status_after_report(before, found, reported(before))
    expected = replace(before.status, resolution=ONLINE, live_replicas={ONE: "b", TWO: "a"}, live_version=8)
    assert after == expected
    assert status_after_report(replace(before, status=after), found, reported(before)) == after, (
        "an announcement counts once"
    )


def test_a_decision_is_stable() -> None:
    """Without new events, the same decision is made again."""
    for before in (partition(1, 2), partition(1, 2, resolution=FOUND), partition(1, epoch=int(NO_EPOCH))):
        status = decide(before, spus(s1="a", s2="a"), PartitionReports()).status
        assert decide(replace(before, status=status), spus(s1="a", s2="a"), PartitionReports()).status == status


# partitions with shelves


def shelved(before: Partition, end: int) -> Partition:
    return replace(before, spec=replace(before.spec, shelves=(Shelf(0, end, (FIVE,)),)))


SHORT = "its shelves go up to 10, and the logs of these end before: "


def test_a_replica_whose_log_ends_before_the_shelves_is_not_elected_uncleanly() -> None:
    before, unclean = shelved(partition(1, resolution=ELECTION), 10), ElectionRules(unclean=True)
    found = spus(s2="a", s3="a")
    refused = decide(before, found, ends(s2=9, s3=7), unclean)
    assert refused == Decision(replace(before.status, reason=SHORT + "2, 3"))
    stored = replace(before, status=refused.status)
    assert decide(stored, found, ends(s2=9, s3=7), unclean) == refused, "it rests"
    assert decide(stored, found, ends(s2=9, s3=10), unclean).status.leader == THREE
    assert decide(stored, spus(s1="a", s2="a", s3="a"), ends(s2=9, s3=7), unclean).status.leader == ONE


def test_a_busy_candidate_may_have_a_log_beyond_the_shelves() -> None:
    before, unclean = shelved(partition(1, resolution=ELECTION), 10), ElectionRules(unclean=True)
    reports = ends(s2=9)
    reports.log_ends[THREE] = ReportedLogEnd("of a", Epoch(5), None)
    decision = decide(before, spus(s2="a", s3="a"), reports, unclean)
    assert (decision.status.resolution, decision.status.reason) == (ELECTION, "")


def test_after_unclean_stops_shelves_count_as_well_and_a_single_candidate_is_asked() -> None:
    before, found = shelved(partition(1), 10), spus(s1="b", s2="a")
    asking = decide(before, found, PartitionReports())
    assert (asking.status.resolution, asking.asks) == (ELECTION, (ONE,))
    asked = replace(before, status=asking.status)
    said = {ONE: ReportedLogEnd("of b", Epoch(5), 9), TWO: ReportedLogEnd("of a", Epoch(5), 10)}
    refused = decide(asked, found, PartitionReports(log_ends=said)).status
    assert (refused.resolution, refused.reason) == (ELECTION, SHORT + "1")
    assert decide(asked, found, PartitionReports(log_ends=said), ElectionRules(unclean=True)).status.leader == TWO
    said[ONE] = ReportedLogEnd("of b", Epoch(5), 10)
    assert decide(asked, found, PartitionReports(log_ends=said)).status.leader == ONE
