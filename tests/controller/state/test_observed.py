"""What SPUs reported over their connections."""

from controller_model import connected, lost, storage, topic_id

from tailrace.controller.state.events import (
    LeaderSilent,
    LeaseGracePeriodOver,
    LiveReplicasReported,
    LogEndsReported,
    ReplicaFailed,
    ReplicaOpened,
    ShelvesReported,
)
from tailrace.controller.state.observed import FailedStorage, Observed, PartitionReports, ReportedLogEnd
from tailrace.protocol.ids import Epoch, SpuId

ONE = SpuId(1)
KEY = (topic_id(1), 0)
OTHER_KEY = (topic_id(1), 1)


def report(spu: SpuId, epoch: int, *members: tuple[SpuId, str]) -> LiveReplicasReported:
    return LiveReplicasReported(spu, "first", *KEY, Epoch(epoch), 0, members)


def test_connected_spus_and_the_reasons_of_lost_ones() -> None:
    observed = Observed()
    observed.apply(connected(1))
    assert observed.connected == {1: connected(1)}
    observed.apply(lost(1))
    assert observed.connected == {}
    assert observed.lost == {1: "its lease has expired"}
    observed.apply(connected(1, "second"))
    assert observed.lost == {}


def test_spus_with_full_storage() -> None:
    observed = Observed()
    observed.apply(storage(1, 5, 5))
    assert observed.full == {}, "nobody is connected who could have said it"
    observed.apply(connected(1))
    observed.apply(storage(1, 5, 5, "another"))
    assert observed.full == {}
    observed.apply(storage(1, 5, 5))
    assert observed.full == {1: storage(1, 5, 5)}
    observed.apply(lost(1))
    observed.apply(connected(1))
    assert observed.full == {1: storage(1, 5, 5)}, "the same process would have said what changed"
    observed.apply(connected(1, "second"))
    assert observed.full == {}
    observed.apply(storage(1, 5, 5, "second"))
    observed.apply(storage(1, 4, 5, "second"))
    assert observed.full == {}


def test_the_loss_of_another_process_changes_nothing() -> None:
    observed = Observed()
    observed.apply(connected(1, "second"))
    observed.apply(lost(1, "first"))
    observed.apply(lost(2, "first"))
    assert list(observed.connected) == [1]
    assert observed.lost == {}


def test_the_newest_epoch_counts_and_within_it_the_last_word() -> None:
    observed = Observed()
    observed.apply(connected(1))
    last = report(ONE, 3, (ONE, "x"))
    for said in (report(ONE, 3), last, report(ONE, 2)):
        observed.apply(said)
    assert observed.reports_of(KEY).live_replicas == last
    observed.apply(lost(1))
    assert observed.reports_of(KEY).live_replicas == last, "it may come back as the same process"
    assert observed.reports_of((topic_id(1), 1)).live_replicas is None


def test_the_last_report_about_shelves_is_kept_until_it_is_carried_out() -> None:
    def said(spu: int, epoch: int, shelved_from: int) -> ShelvesReported:
        return ShelvesReported(SpuId(spu), "first", *KEY, Epoch(epoch), shelved_from)

    observed = Observed()
    observed.apply(connected(1))
    for event in (said(1, 4, 1), said(1, 5, 2), said(1, 5, 3), said(1, 4, 4), said(2, 6, 5)):
        observed.apply(event)
    assert observed.reports_of(KEY).shelves == said(1, 5, 3)
    observed.forget_shelves(KEY)
    assert observed.reports_of(KEY).shelves is None
    observed.forget_shelves((topic_id(2), 0))


def test_reports_of_disconnected_spus_do_not_count() -> None:
    observed = Observed()
    observed.apply(report(ONE, 0))
    observed.apply(connected(1, "second"))
    observed.apply(report(ONE, 0))
    assert observed.reports_of(KEY) == PartitionReports()


def test_log_ends_are_kept_for_the_election_and_spus_without_one_are_silent() -> None:
    observed = Observed()
    other = (topic_id(1), 1)
    observed.apply(LogEndsReported(ONE, "x", {KEY: Epoch(4), other: Epoch(5)}, {KEY: 17}))
    assert observed.reports_of(KEY) == PartitionReports(log_ends={ONE: ReportedLogEnd("x", Epoch(4), 17)})
    assert observed.reports_of(other) == PartitionReports(silent={ONE: "x"})
    observed.forget_silence(other)
    observed.apply(LogEndsReported(ONE, "x", {other: Epoch(5)}, {}, is_busy=True))
    assert observed.reports_of(other) == PartitionReports(log_ends={ONE: ReportedLogEnd("x", Epoch(5), None)})
    observed.forget_election(KEY)
    assert observed.reports_of(KEY) == PartitionReports()


def test_an_spu_is_silent_until_it_reports_or_is_asked_again() -> None:
    observed = Observed()
    observed.apply(connected(1))
    silent = LeaderSilent(ONE, "first", *KEY, Epoch(0))
    observed.apply(silent)
    assert observed.reports_of(KEY).silent == {ONE: "first"}
    observed.apply(report(ONE, 0))
    assert not observed.reports_of(KEY).silent
    observed.apply(silent)
    observed.forget_silence(KEY)
    assert not observed.reports_of(KEY).silent


def test_failed_storage_counts_in_its_process_until_it_works_again() -> None:
    observed = Observed()
    failed = ReplicaFailed(ONE, "first", *KEY, Epoch(4))
    observed.apply(failed)
    assert observed.reports_of(KEY) == PartitionReports(), "nobody is connected who could have said it"
    observed.apply(connected(1))
    observed.apply(failed)
    observed.forget_silence(KEY)
    assert observed.reports_of(KEY).failed == {ONE: FailedStorage("first", Epoch(4))}
    observed.apply(ReplicaOpened(ONE, "another", *KEY))
    assert not observed.reports_of(KEY).failed[ONE].has_opened
    observed.apply(LeaderSilent(ONE, "first", *KEY, Epoch(5)))
    observed.apply(ReplicaOpened(ONE, "first", *KEY))
    assert observed.reports_of(KEY) == PartitionReports(failed={ONE: FailedStorage("first", Epoch(4), has_opened=True)})
    observed.apply(failed)
    assert not observed.reports_of(KEY).failed[ONE].has_opened
    observed.apply(ReplicaOpened(ONE, "first", *OTHER_KEY))
    assert observed.reports_of(OTHER_KEY) == PartitionReports()


def test_reports_about_a_deleted_partition_are_forgotten() -> None:
    observed = Observed()
    observed.apply(connected(1))
    observed.apply(report(ONE, 0))
    observed.forget(KEY)
    assert observed.reports_of(KEY) == PartitionReports()
    observed.forget(KEY)
    observed.forget_election(KEY)
    observed.forget_silence(KEY)


def test_the_first_lease_ends_once() -> None:
    observed = Observed()
    assert not observed.lease_grace_period_over
    observed.apply(LeaseGracePeriodOver())
    assert observed.lease_grace_period_over


def test_when_none_came_leases_are_unknown_again_once_one_comes() -> None:
    observed = Observed()
    for event in LeaseGracePeriodOver(), connected(1):
        observed.apply(event)
    assert not observed.lease_grace_period_over
    for event in LeaseGracePeriodOver(), connected(2), connected(1, "second"):
        observed.apply(event)
    assert observed.lease_grace_period_over, "there was somebody"


def test_when_all_are_lost_leases_are_unknown_again() -> None:
    observed = Observed()
    for event in connected(1), connected(2), LeaseGracePeriodOver(), lost(1):
        observed.apply(event)
    assert observed.lease_grace_period_over, "that one is lost, and not this SC"
    observed.apply(lost(2))
    observed.apply(connected(1))
    assert not observed.lease_grace_period_over
    observed.apply(LeaseGracePeriodOver())
    assert observed.lease_grace_period_over
