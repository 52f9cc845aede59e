"""Runs Kafka's own command-line tools by class from the jars, because Maven has no shell scripts."""

import subprocess
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java

SECONDS_MAX = 50
CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
}


class ToolFailed(Exception):
    """A tool that ended with an error; the message is its whole output."""


def run_tool(name: str, *arguments: str, standard_input: str = "", jvm: tuple[str, ...] = SHORT_LIVED) -> str:
    """Runs a tool until it ends, and returns its standard output."""
    command = [java(), *jvm, logging_option(), "-cp", class_path(), CLASSES[name], *arguments]
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise ToolFailed(done.stdout + done.stderr)
    return done.stdout


class JavaConsumer:
    """A console consumer that is a member of a group for the duration of the `with` block."""

    def __init__(self, bootstrap: str, topic: str, group: str, properties: Mapping[str, str] | None = None) -> None:
        given = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": "300"} | dict(properties or {})
        if given.get("group.protocol") == "consumer":
            del given["heartbeat.interval.ms"]  # the broker sets it for the new protocol
        words = [word for name, value in given.items() for word in ("--command-property", f"{name}={value}")]
        command = [
            *(java(), *SHORT_LIVED, logging_option(), "-cp", class_path(), CLASSES["console-consumer"]),
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, *words),
        ]
        self.values: list[str] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.values.append(line.rstrip("\n"))

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS_MAX)
        self._reader.join(SECONDS_MAX)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
