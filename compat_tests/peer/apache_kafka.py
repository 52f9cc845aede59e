"""Runs one Apache Kafka node (broker and controller in one process), with the interface of `cluster.Tailrace`.

It proves that each test expects the right thing, and bench/ compares Tailrace with it. Its settings are the defaults,
except for what a single node needs (replication factor 1) and for what takes a test too long (the delay before a
group's first rebalance).
"""

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from cluster import end, run_to_end
from free_ports import free_port
from raw import is_serving

from .jars import class_path, java

HERE = Path(__file__).parent
READY_SECONDS_MAX = 60
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
# Short-lived JVMs start twice as fast without the second compiler.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
LONG_LIVED = ("-Xms256m", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={node}@127.0.0.1:{controller}
listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{address}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
LOGINS = """\
listeners=PLAINTEXT://{address},{listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{address},{listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,{protocols},CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
"""
"""The settings for listeners where clients log in. They replace those above with the same names."""
LISTENER = """\
listener.name.{name}.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.{name}.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.{name}.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


def logging_option() -> str:
    return f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}"


class ApacheKafka:
    def __init__(
        self,
        directory: Path,
        jvm: tuple[str, ...] = LONG_LIVED,
        node: int = 1,
        settings: Mapping[str, str] | None = None,
        listeners: tuple[str, ...] = (),
        users: Mapping[str, str] | None = None,
    ) -> None:
        """Takes the protocols of more listeners, such as SASL_SSL, and the password of each user.

        A user may log in with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
        """
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}
        """The address for each protocol of `listeners`."""
        self._listeners = listeners
        self._users = dict(users or {})
        self.data = directory / "data"
        self._directory = directory
        self._errors = directory / "errors"
        self._settings = Path()
        self._jvm = jvm
        self._node = node
        self._more_settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    def command(self) -> list[str]:
        jvm = (*self._jvm, f"-Dkafka.logs.dir={self._directory}", logging_option())
        return [java(), *jvm, "-cp", class_path(), "kafka.Kafka", str(self._settings)]

    def start(self) -> None:
        if not self.bootstrap:
            self.write_settings("server.properties")
            self.format()
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not is_serving(self.bootstrap):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"Apache Kafka does not respond:\n{self._errors.read_text()[-4000:]}")
            time.sleep(0.01)

    def start_second_process(self) -> tuple[int, str]:
        """Tries to start another process on the same data, and returns its exit status and output."""
        second = ApacheKafka(self._directory, SHORT_LIVED)
        second.write_settings("second.properties")
        return run_to_end(second.command())

    def write_settings(self, name: str) -> None:
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._settings = self._directory / name
        controller = free_port()
        text = SETTINGS.format(node=self._node, address=self.bootstrap, controller=controller, data=self.data)
        if self._listeners:
            text += self._login_settings(controller)
        more = "".join(f"{name}={value}\n" for name, value in self._more_settings.items())
        self._settings.write_text(text + more)

    def _login_settings(self, controller: int) -> str:
        self.addresses = {protocol: f"127.0.0.1:{free_port()}" for protocol in self._listeners}
        text = LOGINS.format(
            address=self.bootstrap,
            controller=controller,
            listeners=",".join(f"{protocol}://{address}" for protocol, address in self.addresses.items()),
            protocols=",".join(f"{protocol}:{protocol}" for protocol in self._listeners),
        )
        users = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        return text + "".join(LISTENER.format(name=each.lower(), users=users) for each in self._listeners)

    def format(self) -> None:
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(self._settings)]
        for name, password in self._users.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                arguments += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        command = [java(), *SHORT_LIVED, "-cp", class_path(), "kafka.tools.StorageTool", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=READY_SECONDS_MAX)

    def stop(self) -> int:
        """Asks the broker to shut down cleanly; returns 0 if it did, although a JVM that SIGTERM ended has the status
        143."""
        status = end(self._process, signal.SIGTERM)
        return 0 if status == 128 + signal.SIGTERM else status

    def kill(self) -> None:
        end(self._process, signal.SIGKILL)
