"""Kafka Streams counts exactly once while its own process and a node are killed."""

import subprocess
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import clients
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from node_cluster import NodeCluster, Watcher
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import java, streams_class_path
from waiting import wait_until

PROGRAM = Path(clients.__path__[0], "WordCount.java")
PARTITIONS = 3
WORDS = [f"word-{number}" for number in range(10)]
ROUNDS = 60
SECONDS_MAX = 60


@pytest.fixture
def start(nodes: NodeCluster, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Yields a function that starts the application of this name."""
    started: list[subprocess.Popen[str]] = []

    def launch(name: str) -> subprocess.Popen[str]:
        state = str(tmp_path / f"state-{len(started)}")
        command = [
            java(),
            *SHORT_LIVED,
            logging_option(),
            "-cp",
            streams_class_path(),
            str(PROGRAM),
            nodes.bootstrap,
            state,
            name,
        ]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, text=True))
        return started[-1]

    yield launch
    for process in started:
        process.kill()
        process.wait()


class Counts:
    """Reads the committed counts of each word."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings | {"reconnect.backoff.max.ms": 200, "log_level": 2})
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        self.seen: defaultdict[str, list[int]] = defaultdict(list)

    def wait_for(self, count: int) -> None:
        def are_seen() -> bool:
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self.seen[message.key().decode()].append(int(message.value()))
            return sum(map(len, self.seen.values())) >= count

        wait_until(are_seen, SECONDS_MAX, f"{count} counts, and not {Counter(map(len, self.seen.values()))}")

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.timeout(180)
def test_counts_are_exact_whatever_is_killed(nodes: NodeCluster, start: Callable[[str], subprocess.Popen[str]]) -> None:
    name, watcher = f"streams-{uuid.uuid4().hex[:8]}", Watcher(nodes.bootstrap)
    for topic in ("words", "counts"):
        watcher.create_topic(f"{name}-{topic}", PARTITIONS, configs={"min.insync.replicas": 2})
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True, "log_level": 2})
    counts = Counts(nodes.bootstrap, f"{name}-counts")
    sent = 0

    def send(rounds: int) -> None:
        nonlocal sent
        for _ in range(rounds):
            for word in WORDS:
                producer.produce(f"{name}-words", "1", word)
                sent += 1
            producer.poll(0.01)
        assert producer.flush(SECONDS_MAX) == 0

    application = start(name)
    send(ROUNDS // 3)
    counts.wait_for(1)
    application.kill()
    application.wait()
    successor = start(name)
    send(ROUNDS // 3)
    counts.wait_for(sent)
    node = watcher.leader(f"{name}-counts")
    nodes.kill_node(node)
    send(ROUNDS - 2 * (ROUNDS // 3))
    counts.wait_for(sent)
    assert dict(counts.seen) == {word: list(range(1, ROUNDS + 1)) for word in WORDS}
    assert successor.poll() is None
    counts.close()
