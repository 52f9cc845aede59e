from controller_model import ModelSc, model, topic
from msgspec.structs import replace

from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState, ShardReport
from tailrace.controller.objects.objects import (
    FunctionSnapshot,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
)
from tailrace.controller.state.actions import DropReplica, KeepReplica
from tailrace.controller.state.events import ReconciliationDue, TriggerReported
from tailrace.runtime.network import Address

SPEC = TriggerSpec("orders", "billing", FunctionSnapshot("/billing.py", "def handler(): ..."), replicas=3)


def with_trigger(**spec: object) -> ModelSc:
    sc = model(1)
    sc.write(topic("orders", 12))
    sc.write(Trigger("bill", replace(SPEC, **spec)))  # type: ignore[arg-type]
    sc.settle()
    return sc


def status(sc: ModelSc) -> TriggerStatus:
    return sc.kv.get(Trigger, "trigger/bill").status


def change(sc: ModelSc, **spec: object) -> None:
    before = sc.kv.get(Trigger, "trigger/bill")
    sc.write(replace(before, spec=replace(before.spec, **spec)))  # type: ignore[arg-type]
    sc.settle()


def report(sc: ModelSc, replica: int, at: float, revision: int = 1, lag_seconds: float = 0.0) -> None:
    shards = (ShardReport(shard=replica, lag=1, lag_seconds=lag_seconds),)
    found = ReplicaReport(
        topic="orders",
        group="billing",
        replica=f"replica{replica}",
        state=ReplicaState.MEMBER,
        revision=revision,
        workers=1,
        shards=shards,
    )
    sc.deliver(TriggerReported("bill", f"replica{replica}", found, 100, at))
    sc.settle()


def running(sc: ModelSc) -> dict[str, int]:
    """The replicas that a provisioner would run now, each with its revision."""
    replicas: dict[str, int] = {}
    for action in sc.actions:
        if isinstance(action, KeepReplica):
            replicas[action.replica] = action.revision
        elif isinstance(action, DropReplica):
            del replicas[action.replica]
    return replicas


def test_a_trigger_gets_its_replicas() -> None:
    sc = with_trigger()
    assert status(sc) == TriggerStatus(TriggerResolution.RUNNING, "", (1, 1, 1))
    assert running(sc) == {"replica1": 1, "replica2": 1, "replica3": 1}
    sc.crash()
    sc.settle()
    assert running(sc) == {"replica1": 1, "replica2": 1, "replica3": 1}
    sc.actions.clear()
    sc.deliver(ReconciliationDue())
    assert running(sc) == {"replica1": 1, "replica2": 1, "replica3": 1}


def test_each_replica_serves_its_metrics_at_a_port_of_its_own() -> None:
    sc = with_trigger(metrics=Address("localhost", 9100))
    kept = [action for action in sc.actions if isinstance(action, KeepReplica)]
    assert {str(each.metrics) for each in kept} == {"localhost:9100", "localhost:9101", "localhost:9102"}
    sc = with_trigger(metrics=Address("localhost", 0))
    kept = [action for action in sc.actions if isinstance(action, KeepReplica)]
    assert {str(each.metrics) for each in kept} == {"localhost:0"}


def test_a_trigger_without_a_topic_waits_for_it() -> None:
    sc = model(1)
    sc.write(Trigger("bill", SPEC))
    sc.settle()
    assert status(sc) == TriggerStatus(TriggerResolution.WAITING, "there is no topic orders")
    assert running(sc) == {}
    sc.write(topic("orders", 12))
    sc.settle()
    assert running(sc) == {"replica1": 1, "replica2": 1, "replica3": 1}
    sc.delete_topic("orders")
    sc.settle()
    assert status(sc).resolution is TriggerResolution.WAITING
    assert running(sc) == {}


def test_the_last_replicas_are_stopped_if_there_are_too_many() -> None:
    sc = with_trigger()
    change(sc, replicas=1)
    assert running(sc) == {"replica1": 1}
    change(sc, replicas=2)
    assert running(sc) == {"replica1": 1, "replica2": 1}


def test_a_paused_trigger_has_no_replicas() -> None:
    sc = with_trigger()
    report(sc, 1, 0.0)
    change(sc, paused=True)
    assert status(sc) == TriggerStatus(TriggerResolution.PAUSED)
    assert running(sc) == {}
    assert not sc.brain.dispatcher.triggers().reports.reports_of("bill")
    change(sc, paused=False)
    assert running(sc) == {"replica1": 1, "replica2": 1, "replica3": 1}


def test_a_deleted_trigger_stops_its_replicas() -> None:
    sc = with_trigger()
    sc.remove(sc.kv.get(Trigger, "trigger/bill"))
    sc.settle()
    assert running(sc) == {}
    report(sc, 1, 0.0)
    assert not sc.kv.all_of(Trigger)


def test_a_new_revision_is_rolled_out_one_by_one() -> None:
    sc = with_trigger()
    report(sc, 1, 0.0)
    report(sc, 2, 0.0)
    change(sc, revision=2)
    assert status(sc).revisions == (2, 1, 1)
    assert list(sc.brain.dispatcher.triggers().reports.reports_of("bill")) == ["replica2"]
    assert running(sc) == {"replica1": 2, "replica2": 1, "replica3": 1}
    report(sc, 2, 1.0)
    assert status(sc) == TriggerStatus(TriggerResolution.REDEPLOYING, "waits until replica1 runs revision 2", (2, 1, 1))
    report(sc, 1, 2.0, revision=2)
    assert running(sc) == {"replica1": 2, "replica2": 2, "replica3": 1}
    report(sc, 1, 3.0, revision=2)
    assert status(sc).revisions == (2, 2, 1)
    report(sc, 2, 4.0, revision=2)
    assert status(sc) == TriggerStatus(TriggerResolution.REDEPLOYING, "waits until replica3 runs revision 2", (2, 2, 2))
    sc.deliver(ReconciliationDue())
    sc.settle()
    assert status(sc).resolution is TriggerResolution.REDEPLOYING
    report(sc, 3, 5.0, revision=2)
    assert status(sc) == TriggerStatus(TriggerResolution.RUNNING, "", (2, 2, 2))
    assert running(sc) == {"replica1": 2, "replica2": 2, "replica3": 2}


def test_an_old_report_does_not_say_that_a_replica_runs() -> None:
    sc = with_trigger()
    change(sc, revision=2)
    report(sc, 1, 2.0, revision=2)
    report(sc, 2, 100.0, revision=2)
    assert status(sc).revisions == (2, 2, 1)


def test_the_number_of_replicas_follows_the_lag_and_says_why() -> None:
    sc = with_trigger(min_replicas=1)
    assert status(sc).revisions == (1,)
    at = 0.0
    while len(status(sc).revisions) == 1:
        report(sc, 1, at, lag_seconds=60.0)
        at += 2
    assert status(sc) == TriggerStatus(TriggerResolution.RUNNING, "records have waited for more than 10 s", (1, 1))
    while len(status(sc).revisions) == 2:
        report(sc, 1, at)
        report(sc, 2, at)
        at += 2
    assert len(status(sc).revisions) == 1
    assert "no record has waited" in status(sc).reason
    writes = len(sc.kv.history)
    for _ in range(50):
        report(sc, 1, at)
        at += 2
    assert len(sc.kv.history) == writes


def test_another_sc_continues_a_redeployment() -> None:
    sc = with_trigger()
    change(sc, revision=2)
    sc.crash()
    sc.settle()
    sc.deliver(ReconciliationDue())
    sc.settle()
    assert status(sc).resolution is TriggerResolution.REDEPLOYING
    assert running(sc) == {"replica1": 2, "replica2": 1, "replica3": 1}
    report(sc, 1, 1.0, revision=2)
    assert running(sc) == {"replica1": 2, "replica2": 2, "replica3": 1}
