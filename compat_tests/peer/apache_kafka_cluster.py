"""Runs Apache Kafka with three brokers and a controller, each in a process of its own, as in production.

Its settings are the defaults. The heaps are small, so that four JVMs fit into memory beside other tests.
"""

import signal
import subprocess
import time
from pathlib import Path

from cluster import end
from free_ports import free_port
from raw import is_serving

from .apache_kafka import CLUSTER_ID, LONG_LIVED, SHORT_LIVED, logging_option
from .jars import class_path, java

READY_SECONDS_MAX = 90
NEAR_REPLICAS = """\
broker.rack=rack-{node}
replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector
"""
CONTROLLER = 100
"""The node id of the controller."""
HEAPS = {CONTROLLER: ("-Xms128m", "-Xmx256m")}
BROKER_HEAP = ("-Xms256m", "-Xmx768m")
SETTINGS = """\
process.roles={role}
node.id={node}
controller.quorum.voters={controller_id}@127.0.0.1:{controller_port}
listeners={listener}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
group.initial.rebalance.delay.ms=0
"""


class ApacheKafkaCluster:
    def __init__(self, directory: Path, brokers: int = 3, has_racks: bool = False) -> None:
        """Prepares the cluster. With `has_racks`, each broker has its own rack, and consumers learn of replicas in
        their rack."""
        self.ids = tuple(range(1, brokers + 1))
        self._directory = directory
        self._has_racks = has_racks
        self._controller_port = free_port()
        self._addresses = {broker: f"127.0.0.1:{free_port()}" for broker in self.ids}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(self._addresses.values())

    def start(self) -> None:
        if not self._directory_of(CONTROLLER).exists():
            self._format()
        for node in (CONTROLLER, *self.ids):
            self._launch(node)
        for broker in self.ids:
            self._wait_until_ready(broker)

    def stop(self) -> None:
        """Stops the brokers before the controller, through which they hand over their leaderships."""
        for node in (*self.ids, CONTROLLER):
            self.stop_node(node)

    def kill(self) -> None:
        for process in self._processes.values():
            end(process, signal.SIGKILL)

    def node_pid(self, node: int) -> int:
        return self._processes[node].pid

    def is_running(self, node: int) -> bool:
        return self._processes[node].poll() is None

    def kill_node(self, node: int) -> None:
        end(self._processes[node], signal.SIGKILL)

    def stop_node(self, node: int) -> int:
        """Stops a broker; returns 0 if it ended cleanly, although a JVM that SIGTERM ended has the status 143."""
        status = end(self._processes[node], signal.SIGTERM)
        return 0 if status == 128 + signal.SIGTERM else status

    def start_node(self, node: int) -> None:
        self._launch(node)
        self._wait_until_ready(node)

    def kill_controller(self) -> None:
        self.kill_node(CONTROLLER)

    def start_controller(self) -> None:
        self._launch(CONTROLLER)

    def replica_directory(self, node: int, topic: str, partition: int) -> Path:
        return self._directory_of(node) / "data" / f"{topic}-{partition}"

    def _directory_of(self, node: int) -> Path:
        return self._directory / f"node-{node}"

    def _format(self) -> None:
        formatting = []
        for node in (CONTROLLER, *self.ids):
            directory = self._directory_of(node)
            directory.mkdir(parents=True)
            is_controller = node == CONTROLLER
            listener = f"CONTROLLER://127.0.0.1:{self._controller_port}"
            text = SETTINGS.format(
                role="controller" if is_controller else "broker",
                node=node,
                controller_id=CONTROLLER,
                controller_port=self._controller_port,
                listener=listener if is_controller else f"PLAINTEXT://{self._addresses[node]}",
                data=directory / "data",
            )
            if self._has_racks and not is_controller:
                text += NEAR_REPLICAS.format(node=node)
            (directory / "server.properties").write_text(text)
            arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(directory / "server.properties")]
            command = [java(), *SHORT_LIVED, "-cp", class_path(), "kafka.tools.StorageTool", *arguments]
            formatting.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        assert not any(process.wait(READY_SECONDS_MAX) for process in formatting), "formatting failed"

    def _launch(self, node: int) -> None:
        directory = self._directory_of(node)
        jvm = [*LONG_LIVED, *HEAPS.get(node, BROKER_HEAP), f"-Dkafka.logs.dir={directory}", logging_option()]
        command = [java(), *jvm, "-cp", class_path(), "kafka.Kafka", str(directory / "server.properties")]
        with (directory / "errors").open("ab") as errors:
            self._processes[node] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)

    def _wait_until_ready(self, broker: int) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not is_serving(self._addresses[broker]):
            if self._processes[broker].poll() is not None or time.monotonic() > deadline:
                errors = (self._directory_of(broker) / "errors").read_text()
                raise AssertionError(f"Apache Kafka's broker {broker} does not respond:\n{errors[-4000:]}")
            time.sleep(0.02)
