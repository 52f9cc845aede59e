"""Java's client, whose transactions follow KIP-890, and Apache Kafka's tools for transactions."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import clients
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java

PROGRAM = Path(clients.__path__[0], "Transactions.java")
PARTITIONS = 3
SECONDS_MAX = 60


def _run(bootstrap: str, topic: str) -> dict[str, str]:
    command = [java(), *SHORT_LIVED, logging_option(), "-cp", class_path(), str(PROGRAM), bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


def test_java_commits_aborts_and_is_fenced(bootstrap: str, create_topic: Callable[..., str]) -> None:
    seen = _run(bootstrap, create_topic(partitions=PARTITIONS))
    committed = [number for number in range(20) if number % 2 == 0 and number % 5 <= 2]
    wanted = [f"{partition}:plain-{number}" for partition in range(PARTITIONS) for number in committed]
    assert sorted(seen["committed"].split(",")) == sorted([*wanted, "1:successor"])
    assert seen["late"] == "ProducerFencedException"
    assert seen["zombie"] == "ProducerFencedException"
    assert seen["offset"] == "5"
