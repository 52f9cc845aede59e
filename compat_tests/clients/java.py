"""Kafka's own command-line tools, run by class from the jars: there are no shell scripts on Maven."""

import subprocess

from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java

SECONDS_MAX = 50
CLASSES = {
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
}


class ToolFailed(Exception):
    """The tool ended with an error; its whole output is the message."""


def run_tool(name: str, *arguments: str, standard_input: str = "", jvm: tuple[str, ...] = SHORT_LIVED) -> str:
    """Runs a tool to its end; its standard output."""
    command = [java(), *jvm, logging_option(), "-cp", class_path(), CLASSES[name], *arguments]
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise ToolFailed(done.stdout + done.stderr)
    return done.stdout
