"""Java's producer, whose transactions are those of KIP-890, and Kafka's own tool for transactions."""

import uuid
from collections.abc import Callable

from clients.java import run_tool

from .transaction_readers import values

PARTITIONS = range(3)
RECORDS = 300


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]


def test_a_producer_of_kip_890_and_the_tool_that_shows_it(bootstrap: str, create_topic: Callable[..., str]) -> None:
    topic, name = create_topic(partitions=len(PARTITIONS)), f"java-{uuid.uuid4().hex}"
    records = ("--num-records", str(RECORDS), "--record-size", "20", "--throughput", "-1")
    transactions = ("--transactional-id", name, "--transaction-duration-ms", "2")
    told = run_tool("producer-perf-test", "--bootstrap-server", bootstrap, "--topic", topic, *records, *transactions)
    assert f"{RECORDS} records sent" in told
    assert len(values(bootstrap, topic, PARTITIONS)) == RECORDS
    described = run_tool("transactions", "--bootstrap-server", bootstrap, "describe", "--transactional-id", name)
    ((_, transactional_id, _, epoch, state, *_),) = _rows(described)
    assert (transactional_id, state) == (name, "CompleteCommit")
    assert int(epoch) > 0, "each end of a transaction gives the producer its next epoch"
