"""The Partition Controller: which partitions are sent to SPUs, and which SPU leads each."""

from collections.abc import Callable

import pytest
from controller_model import Brain, ModelSc, connected, custom, lost, model, reported, topic, topic_id
from msgspec.structs import replace

from tailrace.cluster.specs import NO_LEADER, Shelf
from tailrace.controller.objects.objects import Partition, PartitionResolution, PartitionSpec, PartitionStatus, Spu
from tailrace.controller.state.actions import AddPartition, DeletePartition, Put, UpdatePartition
from tailrace.controller.state.events import (
    LeaderSilent,
    LogEndsReported,
    RebalanceDue,
    ReconciliationDue,
    ReplicaFailed,
    ReplicaOpened,
    SpuConnected,
    SpuResponded,
    SpusAway,
    Stored,
)
from tailrace.controller.state.observed import PartitionReports
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

ONE, TWO, THREE, FOUR, FIVE = map(SpuId, (1, 2, 3, 4, 5))


def with_topic(rows: dict[int, tuple[int, ...]], *spus: int) -> ModelSc:
    sc = model(*(spus or (1, 2, 3)))
    sc.write(topic("t", len(rows), len(rows[0]), rows))
    sc.settle()
    return sc


def set_live(sc: ModelSc, *live: int) -> None:
    """Makes the leader report that these replicas have caught up."""
    live_replicas = tuple(map(SpuId, live))
    sc.report(sc.partition(1), live_replicas)
    sc.settle()
    assert tuple(sc.partition(1).status.live_replicas) == live_replicas


def led(sc: ModelSc) -> tuple[PartitionResolution, int, int, tuple[int, ...]]:
    status = sc.partition(1).status
    return status.resolution, status.leader, status.epoch, tuple(status.live_replicas)


def test_a_new_partition_goes_offline_then_to_its_candidate_then_online() -> None:
    sc = with_topic({0: (2, 1)})
    seen = [(each.status.resolution, each.status.leader, each.status.epoch) for each in sc.kv.history_of(Partition)]
    assert seen == [
        (PartitionResolution.NONE, -1, NO_EPOCH),
        (PartitionResolution.OFFLINE, -1, NO_EPOCH),
        (PartitionResolution.CANDIDATE_FOUND, 2, 0),
        (PartitionResolution.ONLINE, 2, 0),
    ]
    status = PartitionStatus(PartitionResolution.ONLINE, TWO, Epoch(0), "first", {TWO: "first", ONE: "first"})
    assert sc.partition(1).status == status


def test_the_connections_are_told_of_what_concerns_spus_and_no_more() -> None:
    sc = with_topic({0: (2, 1)})
    told = [each for each in sc.actions if isinstance(each, AddPartition | UpdatePartition)]
    assert [type(each) for each in told] == [AddPartition, UpdatePartition]
    assert told[1].partition.status.leader == TWO


def test_the_first_leader_is_the_first_replica_that_is_online() -> None:
    sc = model(2, 3)
    sc.write(custom(1))
    sc.write(topic("t", 1, 3, {0: (1, 3, 2)}))
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, THREE, 0, (THREE, TWO)), "nothing was written yet: all have it all"


def test_a_partition_without_an_online_replica_says_so_and_is_led_when_one_comes() -> None:
    sc = model()
    for spu in (1, 2):
        sc.write(custom(spu))
    sc.write(topic("t", 1, 2, {0: (1, 2)}))
    sc.settle()
    status = sc.partition(1).status
    assert (status.resolution, status.epoch) == (PartitionResolution.OFFLINE, NO_EPOCH)
    assert status.reason == "none of its SPUs is online: 1, 2"
    sc.start_spu(2)
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 0, (TWO,))


def test_a_lost_leader_is_followed_by_a_live_replica_at_the_next_epoch() -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 3)
    sc.stop_spu(1)
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, THREE, 1, (ONE, THREE)), "the new leader says who is live"


def test_the_live_replica_with_the_smallest_lag_is_elected() -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2, 3)
    sc.log_ends = {2: 7, 3: 8}
    sc.kv.history.clear()
    sc.stop_spu(1)
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, THREE, 1, (ONE, TWO, THREE))
    assert [(each.status.resolution, each.status.leads) for each in sc.kv.history_of(Partition)] == [
        (PartitionResolution.ELECTION, NO_LEADER),
        (PartitionResolution.CANDIDATE_FOUND, THREE),
        (PartitionResolution.ONLINE, THREE),
    ]


def test_a_candidate_that_does_not_respond_is_followed_by_the_next() -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2, 3)
    sc.log_ends = {2: 7, 3: 8}
    sc.mute_elected = {3}
    sc.stop_spu(1)
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.CANDIDATE_FOUND, THREE, 1)
    sc.wait_for_leaders()
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.ONLINE, TWO, 2)


def test_when_none_responds_it_is_offline_until_one_returns_or_speaks_or_all_is_looked_at_again() -> None:
    def all_silent() -> ModelSc:
        sc = with_topic({0: (1, 2, 3)})
        set_live(sc, 1, 2, 3)
        sc.mute_elected = {2, 3}
        sc.stop_spu(1)
        sc.settle()
        for _ in range(2):
            sc.wait_for_leaders()
            sc.settle()
        status = sc.partition(1).status
        assert (status.resolution, status.epoch) == (PartitionResolution.OFFLINE, 2)
        assert status.reason == "no live replica responds: 3, 2"
        sc.wait_for_leaders()
        sc.settle()
        assert sc.partition(1).status == status, "nothing is tried again without a reason"
        sc.mute_elected.clear()
        return sc

    def returns(sc: ModelSc) -> None:
        sc.start_spu(1, "second")

    def connects_again(sc: ModelSc) -> None:
        sc.from_connections.append(connected(3))

    def answers_late(sc: ModelSc) -> None:
        sc.from_connections.append(SpuResponded(THREE))

    def speaks_late(sc: ModelSc) -> None:
        sc.report(sc.partition(1), ())

    for reason in (returns, connects_again, answers_late, speaks_late, ModelSc.reconcile):
        sc = all_silent()
        reason(sc)
        sc.settle()
        assert led(sc)[0] is PartitionResolution.ONLINE, reason
        assert led(sc)[2] == 3


@pytest.mark.parametrize("is_silent_as_leader", [False, True])
def test_an_spu_that_was_silent_in_a_finished_election_may_lead_after_the_next(is_silent_as_leader: bool) -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2, 3)
    sc.busy = {2}
    sc.stop_spu(1)
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.ONLINE, THREE, 1), "SPU 2 opens its log: nobody waited for it"
    key = (topic_id(1), 0)
    if is_silent_as_leader:
        sc.deliver(LeaderSilent(TWO, "first", *key, Epoch(0)))
    else:
        sc.deliver(LogEndsReported(TWO, "first", {key: Epoch(0)}, {}))
    sc.settle()
    sc.stop_spu(3)
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.ONLINE, TWO, 2)


@pytest.mark.parametrize("is_silent_as_leader", [False, True])
def test_an_spu_that_was_silent_in_a_finished_election_has_its_full_time_in_the_next(is_silent_as_leader: bool) -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2, 3)
    sc.busy, sc.mute_elected = {2}, {2, 3}
    sc.stop_spu(1)
    sc.settle()
    sc.wait_for_leaders()
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.CANDIDATE_FOUND, TWO, 2)
    key = (topic_id(1), 0)
    if is_silent_as_leader:
        sc.deliver(LeaderSilent(TWO, "first", *key, Epoch(1)))
    else:
        sc.deliver(LogEndsReported(TWO, "first", {key: Epoch(0)}, {}))
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.CANDIDATE_FOUND, TWO, 2)


@pytest.mark.parametrize("event", [SpuResponded(THREE), connected(3)])
def test_an_spu_that_responds_while_the_offline_status_is_written_may_lead(event: SpuResponded | SpuConnected) -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2, 3)
    sc.mute, sc.mute_elected = {2, 3}, {2, 3}
    sc.stop_spu(1)

    def is_decided() -> bool:
        found = [each.object for each in sc.writes]
        return any(
            isinstance(each, Partition) and each.status.resolution is PartitionResolution.OFFLINE for each in found
        )

    while not is_decided():
        sc.enabled()[-1]()
    assert led(sc)[0] is not PartitionResolution.OFFLINE
    sc.mute.clear()
    sc.mute_elected.clear()
    sc.deliver(event)
    sc.settle()
    assert led(sc)[0] is PartitionResolution.ONLINE


def test_when_all_stopped_uncleanly_the_one_with_the_most_leads_once_all_are_back() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1, 2)
    for spu in (2, 1):
        sc.stop_spu(spu)
    sc.start_spu(1, "second")
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    sc.log_ends = {1: 7, 2: 9}
    sc.start_spu(2, "second")
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 1, (ONE, TWO))
    assert sc.partition(1).status.live_replicas == {ONE: "first", TWO: "second"}


def test_a_process_that_starts_anew_with_the_store_it_had_may_lead_at_once() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1, 2)
    for spu in (2, 1):
        sc.stop_spu(spu)
    sc.start_spu(2, "second", store="first")
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 1, (ONE, TWO))


def test_spus_are_told_that_a_partition_has_no_leader_any_more() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.actions.clear()
    sc.stop_spu(1)
    sc.settle()
    told = [each.partition.status for each in sc.actions if isinstance(each, UpdatePartition)]
    assert [(status.resolution, status.epoch) for status in told] == [(PartitionResolution.OFFLINE, 0)]


def test_a_replica_that_is_not_live_is_not_elected() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.stop_spu(1)
    sc.settle()
    status = sc.partition(1).status
    assert (status.resolution, status.leader, status.epoch) == (PartitionResolution.OFFLINE, 1, 0)
    assert tuple(status.live_replicas) == (ONE,)
    assert status.reason == "none of its live replicas is online: 1"


def test_the_last_live_replica_leads_again_when_it_returns() -> None:
    for incarnation in ("first", "second"):
        sc = with_topic({0: (1, 2)})
        set_live(sc, 1)
        sc.stop_spu(1)
        sc.settle()
        sc.start_spu(1, incarnation)
        sc.settle()
        status = sc.partition(1).status
        assert (status.resolution, status.leader, status.epoch) == (PartitionResolution.ONLINE, ONE, 1)
        assert (status.incarnation, status.live_replicas) == (incarnation, {ONE: incarnation})


def test_an_spu_that_was_never_missed_is_elected_anew_when_its_process_is_another() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.start_spu(1, "second")
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, ONE, 1, (ONE,))
    assert sc.partition(1).status.incarnation == "second"


def test_a_live_replica_takes_over_from_a_leader_whose_process_has_started_anew() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1, 2)
    sc.start_spu(1, "second")
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 1, (ONE, TWO))


def test_only_the_leader_removes_a_follower_that_stops_or_restarts() -> None:
    changes: list[Callable[[ModelSc], None]] = [lambda sc: sc.stop_spu(2), lambda sc: sc.start_spu(2, "second")]
    for change in changes:
        sc = with_topic({0: (1, 2)})
        set_live(sc, 1, 2)
        before = sc.partition(1).status
        change(sc)
        sc.settle()
        assert sc.partition(1).status == before
        sc.start_spu(2, "second")
        sc.settle()
        assert sc.partition(1).status == before
        set_live(sc, 1, 2)
        assert sc.partition(1).status.live_replicas == {ONE: "first", TWO: "second"}, "it has caught up again"


def test_reports_of_others_and_of_other_epochs_change_nothing() -> None:
    sc = with_topic({0: (1, 2, 3)})
    good = replace(reported(sc.partition(1)), members=((ONE, ""), (TWO, "first")))
    for report in (
        replace(good, spu=TWO),
        replace(good, incarnation="another"),
        replace(good, epoch=Epoch(1)),
        replace(good, epoch=NO_EPOCH),
        replace(good, number=7),
        replace(good, topic_id=topic_id(2)),
        replace(good, spu=SpuId(9)),
        replace(good, version=3),
    ):
        assert sc.deliver(report) == [], report


def test_a_report_that_came_before_its_epoch_was_read_counts_when_it_is() -> None:
    spu = Spu(custom(1).spec, replace(custom(1).status), version=1)
    brain = Brain()
    puts = brain.on(Stored(spu), connected(1))
    online = next(each.object for each in puts if isinstance(each, Put))
    assert isinstance(online, Spu)
    brain.on(Stored(replace(online, version=2)), Stored(replace(topic("t"), version=3)))
    found = PartitionStatus(PartitionResolution.CANDIDATE_FOUND, ONE, Epoch(4), "first", {ONE: "first"})
    partition = Partition("t", topic_id(1), 0, PartitionSpec(ONE, (ONE,)), found, version=5)
    brain.on(reported(partition))
    actions = brain.on(Stored(partition))
    assert actions == [
        AddPartition(partition),
        Put(replace(partition, status=replace(found, resolution=PartitionResolution.ONLINE))),
    ]


def test_a_lost_write_is_decided_again_on_the_newer_version() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.running.pop(1)
    sc.deliver(lost(1))
    sc.carry_out_a_write()  # the SPU is offline
    sc.deliver_from_store()
    sc.touch(f"partition/{topic_id(1)}/0")
    sc.settle()
    assert sc.partition(1).status.resolution is PartitionResolution.OFFLINE


def test_a_deleted_topic_is_sent_to_no_spu_and_its_epoch_continues_when_it_is_restored() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.delete_topic("t")
    sc.settle()
    assert sc.actions[-1] == DeletePartition(topic_id(1), 0)
    sc.start_spu(1, "second")
    sc.settle()
    assert sc.partition(1).status.epoch == 0, "nobody is elected for it"
    sc.undelete_topic(topic_id(1))
    sc.settle()
    status = sc.partition(1).status
    assert (status.resolution, status.leader, status.epoch) == (PartitionResolution.ONLINE, 1, 1)
    assert (topic_id(1), 0) in sc.told


@pytest.mark.parametrize("is_late", [False, True])
def test_a_disk_that_failed_before_a_topic_was_deleted_is_not_held_against_it_when_it_is_brought_back(
    is_late: bool,
) -> None:
    """SPUs open its logs anew, and report failures again."""
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    failed = ReplicaFailed(SpuId(1), "first", topic_id(1), 0, Epoch(0))
    for happens in (sc.deliver, sc.delete_topic) if not is_late else (sc.delete_topic, sc.deliver):
        happens(failed if happens == sc.deliver else "t")
        sc.settle()
    sc.undelete_topic(topic_id(1))
    sc.settle()
    status = sc.partition(1).status
    assert (status.resolution, status.leader) == (PartitionResolution.ONLINE, 1)


def test_another_sc_sends_everything_and_holds_no_elections() -> None:
    sc = with_topic({0: (1, 2), 1: (2, 1)})
    before = dict(sc.kv.objects)
    sc.crash()
    sc.settle()
    sc.end_first_lease()
    sc.settle()
    assert sc.kv.objects == before
    assert len(sc.told) == 2


def test_a_removed_partition_is_deleted_from_the_connections() -> None:
    sc = with_topic({0: (1, 2)})
    sc.remove(sc.partition(1))
    assert sc.brain.on(sc.from_store.popleft()) == [DeletePartition(topic_id(1), 0)]
    assert sc.brain.observed.reports_of((topic_id(1), 0)) == PartitionReports(), "nobody keeps what was said of it"


def test_late_reports_about_a_removed_partition_are_not_kept() -> None:
    sc = with_topic({0: (1, 2)})
    key = (topic_id(2), 0)
    sc.deliver(LogEndsReported(TWO, "first", {key: Epoch(0)}, {key: 7}))
    assert sc.brain.observed.reports_of(key) == PartitionReports()


def test_nothing_is_left_to_do_at_rest() -> None:
    sc = with_topic({0: (1, 2), 1: (2, 1)})
    assert sc.brain.on(ReconciliationDue()) == []


def test_an_unclean_election_needs_a_config_and_that_all_had_the_time_to_come() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.stop_spu(1)
    sc.settle()
    found = sc.topic("t")
    sc.write(replace(found, spec=replace(found.spec, configs={"unclean.leader.election.enable": "true"})))
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    sc.end_first_lease()
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 1, (TWO,))


@pytest.mark.parametrize("is_the_live_one_back", [True, False])
def test_after_all_were_lost_an_unclean_election_gives_them_the_time_to_come_back(
    *, is_the_live_one_back: bool
) -> None:
    sc = with_topic({0: (1, 2)}, 1, 2)
    set_live(sc, 1)
    found = sc.topic("t")
    sc.write(replace(found, spec=replace(found.spec, configs={"unclean.leader.election.enable": "true"})))
    sc.end_first_lease()
    sc.deliver(lost(1))
    sc.deliver(lost(2))
    sc.settle()
    sc.start_spu(2)
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    if is_the_live_one_back:
        sc.start_spu(1)
        sc.settle()
    sc.end_first_lease()
    sc.settle()
    assert led(sc)[1] == (ONE if is_the_live_one_back else TWO)


def test_an_sc_without_spus_waits_a_lease_after_the_first_one_before_an_unclean_election() -> None:
    sc = with_topic({0: (1, 2)}, 1, 2)
    set_live(sc, 1)
    found = sc.topic("t")
    sc.write(replace(found, spec=replace(found.spec, configs={"unclean.leader.election.enable": "true"})))
    sc.settle()
    sc.crash()
    sc.from_connections.clear()
    sc.mute = {1, 2}
    sc.settle()
    sc.end_first_lease()
    sc.settle()
    sc.mute = set()
    for spu in (2, 1):
        sc.start_spu(spu)
        sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, ONE, 1, (ONE,))


def test_an_sc_that_is_cut_off_holds_no_unclean_election_among_the_last_leases() -> None:
    sc = with_topic({0: (1, 2)}, 1, 2)
    set_live(sc, 1)
    found = sc.topic("t")
    sc.write(replace(found, spec=replace(found.spec, configs={"unclean.leader.election.enable": "true"})))
    sc.end_first_lease()
    sc.mute = sc.mute_elected = {1, 2}
    for spu in (1, 2):
        sc.deliver(lost(spu))
        sc.settle()
    assert led(sc) == (PartitionResolution.OFFLINE, ONE, 0, (ONE,))


def test_a_config_that_allows_an_election_brings_it_about() -> None:
    sc = with_topic({0: (1, 2)})
    set_live(sc, 1)
    sc.end_first_lease()
    sc.stop_spu(1)
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    found = sc.topic("t")
    sc.write(replace(found, spec=replace(found.spec, configs={"replication.policy": "majority"})))
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 1, (ONE, TWO))


def with_a_replica_to_come() -> ModelSc:
    """Returns a controller in which SPUs 1 and 2 commit by majority, and SPU 3 should replace SPU 2."""
    sc = model(1, 2, 3)
    wanted = topic("t", 1, 2, {0: (1, 2)})
    sc.write(replace(wanted, spec=replace(wanted.spec, configs={"replication.policy": "majority"})))
    sc.settle()
    sc.report(sc.partition(1), (ONE, TWO))
    sc.settle()
    found = sc.topic("t")
    sc.write(replace(found, status=replace(found.status, replica_map={0: (ONE, THREE)})))
    sc.settle()
    return sc


def test_with_a_majority_policy_an_added_replica_does_not_lead() -> None:
    sc = with_a_replica_to_come()
    assert sc.partition(1).spec.adding == (THREE,)
    sc.log_ends[3] = 10
    sc.stop_spu(1)
    sc.settle()
    assert led(sc)[:2] == (PartitionResolution.ONLINE, TWO)


def test_a_report_of_a_takeover_counts_only_in_its_epoch() -> None:
    sc = with_a_replica_to_come()
    before = sc.partition(1)
    sc.report(before, (ONE, TWO, THREE))
    sc.settle()
    assert sc.partition(1).spec.copy_sets == ((ONE, TWO), (ONE, THREE))
    sc.report(before, (), has_taken_over=True)
    sc.settle()
    assert sc.partition(1).spec.copy_sets == ((ONE, TWO), (ONE, THREE)), "it was said of the set before"
    sc.report(sc.partition(1), (), has_taken_over=True)
    sc.settle()
    assert sc.partition(1).spec == PartitionSpec(ONE, (ONE, THREE))


def test_no_replica_leaves_for_one_with_a_failed_disk_until_it_is_repaired() -> None:
    sc = with_topic({0: (1, 2)})
    found = sc.topic("t")
    sc.write(replace(found, status=replace(found.status, replica_map={0: (ONE, THREE)})))
    sc.settle()
    sc.deliver(ReplicaFailed(THREE, "first", topic_id(1), 0, Epoch(1)))
    sc.report(sc.partition(1), (ONE, TWO, THREE))
    sc.settle()
    assert sc.partition(1).spec.replicas == (ONE, TWO, THREE)
    sc.deliver(ReplicaOpened(THREE, "first", topic_id(1), 0))
    sc.settle()
    assert sc.partition(1).spec.replicas == (ONE, THREE)


def test_an_old_failure_does_not_count_when_a_replica_is_added_again() -> None:
    sc = with_topic({0: (1, 2)})
    sc.deliver(ReplicaFailed(THREE, "first", topic_id(1), 0, Epoch(1)))
    found = sc.topic("t")
    sc.write(replace(found, status=replace(found.status, replica_map={0: (ONE, THREE)})))
    sc.settle()
    sc.report(sc.partition(1), (ONE, TWO, THREE))
    sc.settle()
    assert sc.partition(1).spec.replicas == (ONE, THREE)


def test_a_leader_that_gives_up_is_followed() -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2)
    sc.deliver(ReplicaFailed(ONE, "first", topic_id(1), 0, Epoch(0)))
    sc.settle()
    assert led(sc) == (PartitionResolution.ONLINE, TWO, 1, (ONE, TWO))
    sc.stop_spu(2)
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    sc.reconcile()
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    sc.start_spu(1, "second", store="first")
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.ONLINE, ONE, 2)


def test_a_replica_that_is_mended_may_lead_again() -> None:
    sc = with_topic({0: (1, 2, 3)})
    set_live(sc, 1, 2)
    sc.deliver(ReplicaFailed(ONE, "first", topic_id(1), 0, Epoch(0)))
    sc.settle()
    sc.stop_spu(2)
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    sc.deliver(ReplicaOpened(ONE, "first", topic_id(1), 0))
    sc.settle()
    assert led(sc)[:3] == (PartitionResolution.ONLINE, ONE, 2)


def test_leaders_give_back_what_they_took_over_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sc = with_topic(dict.fromkeys(range(3), (1, 2)))
    sc.stop_spu(1)
    sc.settle()
    sc.start_spu(1, "second", store="first")
    sc.settle()
    assert [sc.partition(1, number).status.leads for number in range(3)] == [TWO] * 3
    monkeypatch.setattr("tailrace.controller.partitions.partition_controller.REBALANCED_AT_ONCE_MAX", 2)
    for leaders in ([ONE, ONE, TWO], [ONE, ONE, ONE]):
        sc.deliver(RebalanceDue())
        sc.settle()
        assert [sc.partition(1, number).status.leads for number in range(3)] == leaders
    assert sc.deliver(RebalanceDue()) == []


def test_nothing_is_given_back_to_whom_a_log_does_not_open() -> None:
    """It reports the failure for no epoch, so that it may be elected if no other replica is left."""
    sc = with_topic({0: (1, 2), 1: (1, 2)})
    sc.stop_spu(1)
    sc.settle()
    sc.start_spu(1, "second", store="first")
    sc.settle()
    sc.deliver(RebalanceDue(frozenset({(topic_id(1), 0, ONE), (topic_id(1), 1, TWO)})))
    sc.settle()
    assert [sc.partition(1, number).status.leads for number in range(2)] == [TWO, ONE]
    sc.deliver(RebalanceDue())
    sc.settle()
    assert [sc.partition(1, number).status.leads for number in range(2)] == [ONE, ONE]


def with_shelf(*stores: int) -> ModelSc:
    """Returns a controller with a shelf on SPUs 3 and 4 that is filled up to offset 10."""
    sc = with_topic({0: (1, 2)}, 1, 2, *stores)
    sc.report_shelves(sc.partition(1), next_base=5)
    sc.settle()
    sc.report_shelves(sc.partition(1), (5, 3, 10), (5, 4, 10))
    sc.settle()
    assert shelves(sc) == (Shelf(5, 10, (THREE, FOUR)),)
    return sc


def shelves(sc: ModelSc) -> tuple[Shelf, ...]:
    return sc.partition(1).spec.shelves


def test_a_report_about_shelves_is_stored_and_sent_without_an_election() -> None:
    sc = with_shelf(3, 4)
    assert sc.partition(1).spec.shelved_from == 5
    assert sc.told[topic_id(1), 0].spec == sc.partition(1).spec
    assert led(sc)[:3] == (PartitionResolution.ONLINE, ONE, 0)


def test_a_report_of_an_earlier_leader_about_shelves_does_not_count() -> None:
    sc = with_shelf(3, 4)
    before = sc.partition(1)
    set_live(sc, 1, 2)
    sc.stop_spu(1)
    sc.settle()
    sc.start_spu(1, store="first")
    sc.settle()
    assert led(sc)[:2] == (PartitionResolution.ONLINE, TWO)
    sc.report_shelves(before, (5, 3, 20), (5, 4, 20))
    sc.settle()
    assert shelves(sc) == (Shelf(5, 10, (THREE, FOUR)),)


@pytest.mark.parametrize("live", [True, False])
def test_a_report_during_another_write_is_not_lost(live: bool) -> None:
    """The partition is one object, so one of two writes loses, and its decision is made again."""
    sc = with_shelf(3, 4)
    partition = sc.partition(1)
    sc.report_shelves(partition, (5, 3, 20), (5, 4, 20))
    sc.report(partition, (ONE,))
    if live:
        sc.from_connections.reverse()
    sc.settle()
    assert shelves(sc) == (Shelf(5, 20, (THREE, FOUR)),)
    assert tuple(sc.partition(1).status.live_replicas) == (ONE,)


def test_many_partitions_get_shelves_at_once_and_all_stores_get_some() -> None:
    sc = with_topic(dict.fromkeys(range(6), (1,)), 1, 2, 3, 4)
    for number in range(6):
        sc.report_shelves(sc.partition(1, number), next_base=0)
    while sc.from_connections:
        sc.deliver_from_connections()  # nothing is written in between
    sc.settle()
    chosen = [sc.partition(1, number).spec.shelves[0].stores for number in range(6)]
    assert sorted(chosen) == [(TWO,), (TWO,), (THREE,), (THREE,), (FOUR,), (FOUR,)]


def test_a_store_that_stays_away_is_replaced_once_another_has_all() -> None:
    sc = with_shelf(3, 4, 5)
    sc.stop_spu(4)
    sc.settle()
    sc.deliver(SpusAway(frozenset({FOUR})))
    sc.reconcile()
    sc.settle()
    assert shelves(sc) == (Shelf(5, 10, (THREE, FOUR), (FIVE,)),)
    assert sc.reconcile() == []
    sc.report_shelves(sc.partition(1), (5, 5, 10))
    sc.settle()
    assert shelves(sc) == (Shelf(5, 10, (THREE, FIVE)),)


def test_a_store_that_is_not_registered_any_more_is_replaced_at_once() -> None:
    sc = with_shelf(3, 4, 5)
    sc.stop_spu(4)
    sc.remove(sc.spu(4))
    sc.settle()
    assert shelves(sc) == (Shelf(5, 10, (THREE, FOUR), (FIVE,)),)


def test_shelves_of_an_offline_partition_stay_unchanged() -> None:
    sc = with_shelf(3, 4, 5)
    for spu in (1, 2, 4):
        sc.stop_spu(spu)
    sc.settle()
    sc.deliver(SpusAway(frozenset({FOUR})))
    sc.reconcile()
    sc.settle()
    assert led(sc)[0] is PartitionResolution.OFFLINE
    assert shelves(sc) == (Shelf(5, 10, (THREE, FOUR)),)


def test_shelves_outlive_a_deletion_that_is_taken_back() -> None:
    sc = with_shelf(3, 4)
    before = sc.partition(1).spec
    sc.delete_topic("t")
    sc.settle()
    assert not sc.told
    sc.undelete_topic(topic_id(1))
    sc.settle()
    assert sc.told[topic_id(1), 0].spec == sc.partition(1).spec == before


def test_a_shelf_on_which_nothing_is_yet_does_not_wait_for_a_store_that_goes() -> None:
    sc = with_shelf(3, 4, 5)
    sc.report_shelves(sc.partition(1), next_base=10)
    sc.settle()
    assert shelves(sc)[1] == Shelf(10, 10, (FIVE, THREE)), "it had none"
    sc.stop_spu(5)
    sc.settle()
    assert shelves(sc) == (Shelf(5, 10, (THREE, FOUR)), Shelf(10, 10, (THREE, FOUR)))


def test_an_unclean_election_waits_for_a_log_that_reaches_the_end_of_the_shelves() -> None:
    sc = with_shelf(3, 4)
    found = sc.topic("t")
    sc.write(replace(found, spec=replace(found.spec, configs={"unclean.leader.election.enable": "true"})))
    sc.settle()
    sc.end_first_lease()
    set_live(sc, 1)
    sc.log_ends = {1: 12, 2: 9}
    sc.stop_spu(1)
    sc.settle()  # it comes to rest
    status = sc.partition(1).status
    assert (status.resolution, status.reason) == (
        PartitionResolution.ELECTION,
        "its shelves go up to 10, and the logs of these end before: 2",
    )
    assert sc.reconcile() == []
    sc.start_spu(1, store="first")
    sc.settle()
    assert led(sc)[:2] == (PartitionResolution.ONLINE, ONE)
    sc.log_ends[2] = 10
    sc.stop_spu(1)
    sc.settle()
    assert led(sc)[:2] == (PartitionResolution.ONLINE, TWO)
