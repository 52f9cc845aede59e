"""What SPUs said by their connections."""

from controller_model import connected, lost, storage, topic_id

from tailrace.controller.events import LeasesUnknownOver, LiveReplicasReported
from tailrace.controller.observed import LiveReplicasReport, Observed
from tailrace.protocol.ids import Epoch, SpuId

ONE, TWO, THREE = SpuId(1), SpuId(2), SpuId(3)


def report(spu: SpuId, epoch: int, *live: SpuId) -> LiveReplicasReported:
    return LiveReplicasReported(spu, topic_id(1), 0, Epoch(epoch), live)


def test_who_is_connected_and_why_others_are_not() -> None:
    observed = Observed()
    observed.apply(connected(1))
    assert observed.connected == {1: connected(1)}
    observed.apply(lost(1))
    assert observed.connected == {}
    assert observed.lost == {1: "its lease has run out"}
    observed.apply(connected(1, "second"))
    assert observed.lost == {}


def test_whose_storage_is_full() -> None:
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


def test_a_report_is_kept_with_the_processes_that_it_speaks_of() -> None:
    observed = Observed()
    observed.apply(connected(1, "x"))
    observed.apply(connected(2, "y"))
    observed.apply(report(ONE, 3, ONE, TWO, THREE))
    found = observed.report(ONE, topic_id(1), 0)
    assert found == LiveReplicasReport("x", Epoch(3), (ONE, TWO, THREE), {ONE: "x", TWO: "y"})
    observed.apply(lost(1, "x"))
    assert observed.report(ONE, topic_id(1), 0) == found, "it may come back as the same process"
    assert observed.report(TWO, topic_id(1), 0) is None
    assert observed.report(ONE, topic_id(1), 1) is None


def test_the_newest_epoch_counts_and_within_it_the_last_word() -> None:
    observed = Observed()
    observed.apply(connected(1))
    for epoch, live in ((3, (ONE, TWO)), (3, (ONE,)), (2, (ONE, THREE))):
        observed.apply(report(ONE, epoch, *live))
    found = observed.report(ONE, topic_id(1), 0)
    assert found is not None
    assert (found.epoch, found.live_replicas) == (3, (ONE,))


def test_who_is_not_connected_reports_nothing() -> None:
    observed = Observed()
    observed.apply(report(ONE, 0, ONE))
    assert observed.report(ONE, topic_id(1), 0) is None


def test_what_was_said_of_a_partition_that_is_gone_is_forgotten() -> None:
    observed = Observed()
    observed.apply(connected(1))
    observed.apply(report(ONE, 0, ONE))
    observed.forget(topic_id(1), 0, (TWO, ONE))
    assert observed.report(ONE, topic_id(1), 0) is None


def test_the_first_lease_ends_once() -> None:
    observed = Observed()
    assert not observed.leases_unknown_over
    observed.apply(LeasesUnknownOver())
    assert observed.leases_unknown_over
