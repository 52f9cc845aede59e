"""A trigger that is deployed to `tailrace up`, with real replicas and workers: only for Tailrace."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokers import is_apache_kafka
from cluster import FREE_PORTS, READY_LINE, Server, run_to_end, tailrace, tailrace_output
from confluent_kafka import Consumer, Producer, TopicPartition
from waiting import wait_until

SHARDS = 4
FUNCTION = """
from tailrace.trigger import trigger

@trigger("orders", group="billing", seek_to="earliest", replicas=2, session_timeout=3, heartbeat_interval=0.5)
def bill(context, event):
    context.emit("invoices", value=f"{event.shard_id}/{event.offset}")
"""


class Deployment:
    """A cluster to which one trigger is deployed."""

    def __init__(self, directory: Path) -> None:
        self.server = Server(directory, "up", READY_LINE)
        self.bootstrap = self.sc = ""
        self.produced = 0
        self._data = directory / "data"

    def start(self) -> None:
        where = ("--data", str(self._data), "--public", "127.0.0.1:0", *FREE_PORTS, "--metrics", "off")
        ready = self.server.start(tailrace("up", *where, "--topic", f"orders:{SHARDS}", "--topic", "invoices"))
        self.bootstrap, self.sc = ready[1], ready[2]

    def trigger(self, *words: str) -> str:
        status, output = run_to_end(tailrace("trigger", *words, "--sc", self.sc))
        assert status == 0, output
        return output

    def described(self) -> dict[str, Any]:
        (document,) = json.loads(tailrace_output("trigger", "describe", "bill", "--sc", self.sc))
        return document

    def reports(self) -> dict[str, dict[str, Any]]:
        """The current report of each replica that handles shards."""
        replicas = self.described()["status"]["replicas"]
        reports = {each["name"]: each["report"] for each in replicas if each.get("reportAgeMs", 9000) < 9000}
        return {name: report for name, report in reports.items() if report.get("state") == "member"}

    def processes(self) -> list[psutil.Process]:
        """The processes of the replicas."""
        return [child for child in psutil.Process(self.server.pid).children() if _is_replica(child)]

    def members(self) -> list[str]:
        state = json.loads(tailrace_output("trigger", "state", "orders", "--group", "billing", "--sc", self.sc))
        return sorted(member["member_id"] for member in state)

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for number in range(self.produced, self.produced + count):
            producer.produce("orders", value=f"order {number}", partition=number % SHARDS)
        assert producer.flush(20) == 0
        self.produced += count

    def invoices(self) -> list[str]:
        """Waits until there is an invoice for every order, and returns all invoices."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition("invoices", 0, 0)])
        found: list[str] = []

        def has_all() -> bool:
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                found.append(message.value().decode())
            return len(set(found)) == self.produced

        wait_until(has_all, 60, f"{self.produced} invoices")
        consumer.close()
        return found


def _is_replica(process: psutil.Process) -> bool:
    try:
        return "--deployed" in process.cmdline()
    except psutil.NoSuchProcess:  # it has just ended
        return False


@pytest.fixture
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    if is_apache_kafka(request):
        pytest.skip("Apache Kafka has no Streaming Controller")
    deployment = Deployment(tmp_path)
    try:
        deployment.start()
        yield deployment
    finally:
        deployment.server.kill()


def test_a_deployed_trigger_runs_until_it_is_deleted(deployment: Deployment, tmp_path: Path) -> None:
    """Deploys, redeploys under load, kills a replica, pauses, resumes, scales and deletes."""
    function = tmp_path / "billing.py"
    function.write_text(FUNCTION)
    deployment.produce(400)
    assert "created trigger bill: revision 1, 2 replicas" in deployment.trigger("deploy", str(function), "--wait", "60")
    assert len(deployment.invoices()) == 400

    function.write_text("this file is not needed any more")
    deployment.trigger("redeploy", "bill")
    while deployment.described()["status"]["resolution"] == "Redeploying":
        deployment.produce(40)
    assert deployment.described()["status"]["revisions"] == [2, 2]
    deployment.produce(400)
    invoices = deployment.invoices()
    assert len(invoices) == len(set(invoices)), "a calm redeployment repeats nothing"

    killed = deployment.reports()["replica1"]["pid"]
    os.kill(killed, signal.SIGKILL)
    deployment.produce(400)
    deployment.invoices()

    def has_come_back() -> bool:
        return deployment.reports().get("replica1", {}).get("pid", killed) != killed

    wait_until(has_come_back, 60, "replica1 runs again")

    deployment.trigger("pause", "bill")
    wait_until(lambda: not deployment.processes(), 30, "all replicas have stopped")
    assert deployment.members() == []
    deployment.produce(40)
    assert deployment.trigger("explain", "bill", "--shard", "1").startswith("The trigger is paused.")
    deployment.trigger("scale", "bill", "1")
    deployment.trigger("resume", "bill")
    deployment.invoices()
    assert deployment.members() == ["replica1"]
    assert len(deployment.processes()) == 1
    assert "ready replica1 of trigger bill" in deployment.trigger("logs", "bill")

    deployment.trigger("delete", "bill")
    wait_until(lambda: not deployment.processes(), 30, "the replica has stopped")
    wait_until(lambda: not (tmp_path / "data" / "triggers" / "bill").exists(), 10, "its log is removed")
    assert deployment.server.stop() == 0


def test_replicas_end_with_a_killed_cluster_and_come_back_with_it(deployment: Deployment, tmp_path: Path) -> None:
    function = tmp_path / "billing.py"
    function.write_text(FUNCTION)
    deployment.trigger("deploy", str(function), "--replicas", "1", "--stop-timeout", "1s", "--wait", "60")
    (replica,) = deployment.processes()
    workers = replica.children()
    assert workers
    deployment.server.kill()
    _, alive = psutil.wait_procs([replica, *workers], timeout=40)
    assert not alive

    deployment.start()
    deployment.produce(40)
    assert len(deployment.invoices()) == 40
