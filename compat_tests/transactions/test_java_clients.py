"""Java's client, whose transactions follow KIP-890, and Apache Kafka's tools for transactions."""

import json
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import clients
from clients.java import run_tool
from confluent_kafka import Producer
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java

from .transaction_readers import stable_end, state_partition

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
    # After a timeout Apache Kafka 4.3.1 says INVALID_TXN_STATE, which is its bug 23204.
    assert seen["late"] in ("ProducerFencedException", "InvalidTxnStateException")
    assert seen["zombie"] == "ProducerFencedException"
    assert seen["offset"] == "5"


def _values_of(printed: str, column: str) -> list[str]:
    """Returns a column of the table that the tool printed."""
    header, *rows = [line.split("\t") for line in printed.splitlines() if "\t" in line]
    names = [name.strip() for name in header]
    return [row[names.index(column)].strip() for row in rows]


def test_tools_show_and_abort_an_open_transaction(bootstrap: str, topic: str) -> None:
    transactional_id = f"tool-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    assert producer.flush(SECONDS_MAX) == 0

    def tool(command: str, *arguments: str) -> str:
        return run_tool("transactions", "--bootstrap-server", bootstrap, command, *arguments)

    assert transactional_id in _values_of(tool("list"), "TransactionalId")
    described = tool("describe", "--transactional-id", transactional_id)
    assert _values_of(described, "TransactionState") == ["Ongoing"]
    assert _values_of(described, "TopicPartitions") == [f"{topic}-0"]
    place = ("--topic", topic, "--partition", "0")
    assert topic not in tool("find-hanging", *place, "--max-transaction-timeout", "0")
    tool("abort", *place, "--start-offset", "0")
    assert _values_of(tool("describe-producers", *place), "CurrentTransactionStartOffset") == ["None"]
    assert stable_end(bootstrap, topic, 0) == 2


def test_the_formatter_of_kafka_reads_the_state_of_transactions(bootstrap: str, topic: str) -> None:
    transactional_id = f"formatted-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, "value", partition=0)
    producer.commit_transaction(SECONDS_MAX)
    formatter = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
    partition = str(state_partition(transactional_id))
    place = ("--topic", "__transaction_state", "--partition", partition, "--offset", "earliest", "--timeout-ms", "3000")
    printed = run_tool("console-consumer", "--bootstrap-server", bootstrap, *place, "--formatter", formatter)
    states = json.loads(f"[{printed.replace('}{', '},{')}]")  # the formatter writes no line ends
    mine = [each["value"]["data"] for each in states if each["key"]["data"]["transactionalId"] == transactional_id]
    assert [each["transactionPartitions"] for each in mine if each["transactionStatus"] == 1] == [
        [{"topic": topic, "partitionIds": [0]}]
    ]
    assert {each["producerEpoch"] for each in mine} == {0}
    assert mine[-1]["transactionStatus"] == 4
