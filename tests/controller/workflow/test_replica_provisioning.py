import structlog
from structlog.testing import capture_logs

from tailrace.controller.state.actions import KeepReplica
from tailrace.controller.workflow.replica_provisioning import NoReplicaProvisioner


def test_an_sc_that_starts_no_replicas_logs_that() -> None:
    with capture_logs() as logs:
        replicas = NoReplicaProvisioner(structlog.get_logger())
        for _ in range(2):
            replicas.keep(KeepReplica("bill", "replica1", 1, None))
        replicas.drop("bill", "replica1")
        replicas.forget("bill")
    assert [(log["event"], log["trigger"], log["replica"]) for log in logs] == [
        ("replica_not_started", "bill", "replica1"),
        ("replica_not_stopped", "bill", "replica1"),
    ]
    assert replicas.states("bill") == {}
    assert replicas.read_log("bill", "replica1", -1, 1000) is None
