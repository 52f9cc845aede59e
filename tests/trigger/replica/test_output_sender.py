"""Tests what happens to outputs, dead letters and retries while brokers refuse them or cannot be reached."""

from collections.abc import Iterable

import pytest
import structlog
from structlog.testing import capture_logs
from trigger_replicas import config

from tailrace.client.outgoing_records import RecordRefusedError
from tailrace.client.server_connection import UnreachableError
from tailrace.protocol.batches.records import Record
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.chance import RandomChance
from tailrace.trigger.dead_letters.dead_letter import read_letter
from tailrace.trigger.replica.output_sender import OutputRefusedError, OutputSender
from tailrace.trigger.replica.replica_metrics import ReplicaMetrics
from tailrace.trigger.shards.line_effects import DeadLetter, RetryAside, Sending
from tailrace.trigger.shards.retry_records import read_retry
from tailrace.trigger.work import Failure, FailureKind, Output, Shard

SHARD = Shard("orders", 3)
OUTPUT = Output("invoices", b"k", b"v")
RECORD = Record(7, 1_000, b"k", b"value", [("h", b"1")])
FAILURE = Failure(FailureKind.RAISED, 7, 8, "ValueError", "no luck")
LETTER = DeadLetter(SHARD, 7, RECORD, b"", FAILURE, 5)


class _Producer:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.sent: list[list[Output]] = []

    async def send(self, records: Iterable[Output]) -> None:
        self.sent.append(list(records))
        if self.errors:
            raise self.errors.pop(0)


class _Topics:
    def __init__(self) -> None:
        self.ensured: list[str] = []

    async def ensure(self, topic: str) -> None:
        self.ensured.append(topic)

    def forget(self, topic: str) -> None:
        self.ensured.append(f"not {topic}")


def _sender(producer: _Producer, topics: _Topics | None = None) -> tuple[OutputSender, ReplicaMetrics]:
    metrics, chance = ReplicaMetrics(), RandomChance(1)
    return OutputSender(producer, topics or _Topics(), config(), metrics, chance, structlog.get_logger()), metrics


def _as_record(output: Output) -> Record:
    return Record(0, 0, output.key, output.value, list(output.headers))


async def test_everything_is_sent_together_in_order() -> None:
    producer, topics = _Producer(), _Topics()
    sender, metrics = _sender(producer, topics)
    await sender.send(Sending(1, (OUTPUT, OUTPUT), (LETTER,), (RetryAside(SHARD, 7, RECORD, FAILURE, 2, 5_000),)))
    ((first, second, aside, letter),) = producer.sent
    assert topics.ensured == ["orders.billing.dead", "orders.billing.retry"]
    assert (first, second, metrics.outputs) == (OUTPUT, OUTPUT, 2)
    assert (aside.topic, aside.partition, letter.topic) == ("orders.billing.retry", 3, "orders.billing.dead")
    retried = read_retry(_as_record(aside), SHARD)
    assert (retried.record, retried.attempt, retried.due_ms) == (RECORD, 2, 5_000)
    read = read_letter(_as_record(letter))
    assert read is not None
    assert (str(read.origin), read.origin.group, read.attempts, read.message) == ("orders/3/7", "billing", 5, "no luck")


async def test_brokers_that_cannot_be_reached_are_reported_once_and_asked_again(autojump_clock: object) -> None:
    producer = _Producer(*[UnreachableError("no broker")] * 3)
    sender, metrics = _sender(producer)
    with capture_logs() as logged:
        await sender.send(Sending(1, (OUTPUT,)))
    assert [each["event"] for each in logged] == ["output_not_sent", "output_sent_again"]
    assert (producer.sent, metrics.outputs, sender.problem) == ([[OUTPUT]] * 4, 1, "")


async def test_an_output_that_brokers_refuse_is_an_error() -> None:
    sender, _ = _sender(_Producer(RecordRefusedError("it is too large", ErrorCode.MESSAGE_TOO_LARGE, 0)))
    with pytest.raises(OutputRefusedError, match="it is too large"):
        await sender.send(Sending(1, (OUTPUT,)))


async def test_a_dead_letter_that_is_too_large_loses_its_value() -> None:
    producer = _Producer(RecordRefusedError("it is too large", ErrorCode.MESSAGE_TOO_LARGE, 1))
    sender, _ = _sender(producer)
    await sender.send(Sending(1, (OUTPUT,), (LETTER,)))
    letter = read_letter(_as_record(producer.sent[1][1]))
    assert letter is not None
    assert (letter.value, letter.omitted_bytes, str(letter.origin)) == (None, 5, "orders/3/7")


async def test_an_output_waits_until_its_topic_is_created(autojump_clock: object) -> None:
    unknown = RecordRefusedError("there is no topic invoices", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    producer = _Producer(*[unknown] * 3)
    sender, metrics = _sender(producer)
    with capture_logs() as logged:
        await sender.send(Sending(1, (OUTPUT,)))
    assert [each.get("reason") for each in logged] == ["there is no topic invoices", None]
    assert (len(producer.sent), metrics.outputs) == (4, 1)


async def test_a_topic_of_dead_letters_that_was_deleted_is_created_again(autojump_clock: object) -> None:
    unknown = RecordRefusedError("there is no topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    topics, dead = _Topics(), "orders.billing.dead"
    sender, _ = _sender(_Producer(unknown), topics)
    await sender.send(Sending(1, (), (LETTER,)))
    assert topics.ensured == [dead, f"not {dead}", dead]
