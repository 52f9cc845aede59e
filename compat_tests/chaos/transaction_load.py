"""Transactional producers, a group that copies records in transactions, and a reader, with the checks at the end."""

import logging
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from chaos.records import QUICKLY, Place, RunningLibrdkafkaConsumer, RunningProducer, stored
from chaos.transaction_outcomes import Outcome, Outcomes, contradictions, copying_contradictions
from clients.kafka_python import tolerate_lost_coordinators
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import KafkaError
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import class_path, java
from waiting import wait_until

SECONDS_MAX = 60
"""How long a client may need for one step, with retries."""
ABORT_EVERY = 5
ZOMBIE_EVERY = 11
"""Each so many transactions, a producer is replaced while its transaction is open, and tries to commit afterwards."""
TIMEOUT_MS = 15_000
"""After this time, the coordinator aborts what a client has left open."""
COPIED_AT_ONCE = 50
JAVA_PROGRAM = Path(__file__).with_name("TransactionalProducer.java")
QUIET = logging.getLogger("librdkafka")
"""Where clients report that they were fenced."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class TransactionalProducer(ABC):
    """Runs transactions over all partitions in its own thread, and notes what became of each."""

    client: str

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place], per_place: int = 2) -> None:
        self.outcomes = Outcomes(name, places, per_place)
        self.errors: list[str] = []
        self.failures: Counter[str] = Counter()
        """The errors of clients after which the producer went on."""
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def _run(self) -> None:
        """Runs transactions until the producer is told to stop."""

    def committed(self) -> int:
        return self.outcomes.count(Outcome.COMMITTED)

    def stop(self) -> None:
        self.end_soon()
        self.join()

    def end_soon(self) -> None:
        self._stopping.set()

    def join(self, seconds: float = 2 * SECONDS_MAX) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.errors.append(f"{self.outcomes.name} does not end")


class LibrdkafkaTransactions(TransactionalProducer):
    client = "librdkafka"

    def __init__(
        self, name: str, bootstrap: str, places: Sequence[Place], per_place: int = 2, pause_seconds: float = 0
    ) -> None:
        """Begins to write. With a pause after each transaction, it leaves the processor to others."""
        self._pause_seconds = pause_seconds
        super().__init__(name, bootstrap, places, per_place)

    def _run(self) -> None:
        producer: Producer | None = None
        while not self._stopping.wait(self._pause_seconds):
            try:
                producer = producer or self._make()
                if (len(self.outcomes.by_number) + 1) % ZOMBIE_EVERY == 0:
                    producer = self._replaced(producer)
                elif not self._transaction(producer):
                    producer = None
            except KafkaException as error:
                self.failures[error.args[0].name()] += 1
                producer = None

    def _make(self) -> Producer:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": self.outcomes.name, "linger.ms": 1}
            | {"transaction.timeout.ms": TIMEOUT_MS, "request.timeout.ms": 5000, "error_cb": lambda error: None}
            | QUICKLY,
            logger=QUIET,
        )
        _with_retries(lambda: producer.init_transactions(SECONDS_MAX))
        return producer

    def _write(self, producer: Producer) -> int:
        producer.begin_transaction()
        number = self.outcomes.begin()
        for value in self.outcomes.values(number):
            for topic, partition in self.outcomes.places:
                producer.produce(topic, value, partition=partition)
        return number

    def _transaction(self, producer: Producer) -> bool:
        """Whether the producer can go on."""
        number = self._write(producer)
        try:
            if number % ABORT_EVERY == 0:
                producer.flush(SECONDS_MAX)
                _with_retries(lambda: producer.abort_transaction(SECONDS_MAX))
                return True
            self.outcomes.by_number[number] = Outcome.UNKNOWN
            _with_retries(lambda: producer.commit_transaction(SECONDS_MAX))
            self.outcomes.by_number[number] = Outcome.COMMITTED
        except KafkaException as error:
            failure = error.args[0]
            self.failures[failure.name()] += 1
            if not failure.txn_requires_abort():
                return False
            _with_retries(lambda: producer.abort_transaction(SECONDS_MAX))
            self.outcomes.by_number[number] = Outcome.ABORTED
        return True

    def _replaced(self, zombie: Producer) -> Producer:
        """Returns a new producer, after which nothing of the older one's open transaction may be committed."""
        number = self._write(zombie)
        zombie.flush(SECONDS_MAX)
        producer = self._make()
        with suppress(KafkaException):
            zombie.commit_transaction(SECONDS_MAX)
            self.errors.append(f"{self.outcomes.name}: a zombie has committed transaction {number}")
        return producer


def _with_retries(step: Any) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


class KafkaPythonTransactions(TransactionalProducer):
    client = "kafka-python"

    def _run(self) -> None:
        producer: KafkaProducer | None = None
        while not self._stopping.is_set():
            try:
                producer = producer or self._make()
                self._transaction(producer)
            except (KafkaError, AssertionError, RuntimeError) as error:
                self.failures[type(error).__name__] += 1
                if producer is not None:
                    with suppress(Exception):
                        producer.close(timeout=0)
                producer = None
        if producer is not None:
            with suppress(KafkaError):
                producer.close(timeout=10)

    def _make(self) -> KafkaProducer:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","),
            transactional_id=self.outcomes.name,
            transaction_timeout_ms=TIMEOUT_MS,
            max_block_ms=SECONDS_MAX * 1000,
            linger_ms=1,
            request_timeout_ms=5000,
            delivery_timeout_ms=SECONDS_MAX * 1000,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=1000,
        )
        tolerate_lost_coordinators(producer)
        try:
            producer.init_transactions()
        except BaseException:
            producer.close(timeout=0)
            raise
        return producer

    def _transaction(self, producer: KafkaProducer) -> None:
        producer.begin_transaction()
        number = self.outcomes.begin()
        sendings = [
            producer.send(topic, value.encode(), partition=partition)
            for value in self.outcomes.values(number)
            for topic, partition in self.outcomes.places
        ]
        if number % ABORT_EVERY == 0:
            producer.flush(SECONDS_MAX)
            producer.abort_transaction()
            return
        for sending in sendings:
            sending.get(SECONDS_MAX)
        self.outcomes.by_number[number] = Outcome.UNKNOWN
        producer.commit_transaction()
        self.outcomes.by_number[number] = Outcome.COMMITTED


class JavaTransactions(TransactionalProducer):
    """Java's producer in a process of its own, which prints what becomes of each transaction."""

    client = "java"

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place], per_place: int = 2) -> None:
        given = [name, bootstrap, str(TIMEOUT_MS), str(per_place), str(ABORT_EVERY)]
        words = [*given, *(f"{topic}:{partition}" for topic, partition in places)]
        command = [java(), *SHORT_LIVED, logging_option(), "-cp", class_path(), str(JAVA_PROGRAM), *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        super().__init__(name, bootstrap, places, per_place)

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.rstrip("\n").split("\t"):
                case ["begun", number]:
                    self.outcomes.by_number[int(number)] = Outcome.ABORTED
                case ["unknown" | "committed" as outcome, number]:
                    self.outcomes.by_number[int(number)] = Outcome(outcome)
                case ["failed", failure]:
                    self.failures[failure] += 1
                case _:
                    self.errors.append(f"{self.outcomes.name}: {line}")

    def end_soon(self) -> None:
        super().end_soon()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def join(self, seconds: float = 2 * SECONDS_MAX) -> None:
        super().join(seconds)
        if self._process.poll() is None and self._thread.is_alive():
            self._process.kill()
        if status := self._process.wait(SECONDS_MAX):
            self.errors.append(f"{self.outcomes.name} ended with status {status}")


class Copier:
    """A member of a group that copies each record to the partition of the same number of another topic.

    After an error, it starts again with new clients, as an application does.
    """

    def __init__(self, name: str, bootstrap: str, group: str, source: str, target: str) -> None:
        self.failures: Counter[str] = Counter()
        self.errors: list[str] = []
        self.copied = 0
        self._name = name
        self._bootstrap = bootstrap
        self._group = group
        self._source = source
        self._target = target
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            consumer = Consumer(
                {"bootstrap.servers": self._bootstrap, "group.id": self._group, "enable.auto.commit": False}
                | {"auto.offset.reset": "earliest", "isolation.level": "read_committed", "session.timeout.ms": 6000}
                | {"heartbeat.interval.ms": 500, "error_cb": lambda error: None}
                | QUICKLY
            )
            try:
                self._copy(consumer)
            except KafkaException as error:
                self.failures[error.args[0].name()] += 1
            finally:
                with suppress(KafkaException, RuntimeError):
                    consumer.close()

    def _copy(self, consumer: Consumer) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": self._name, "linger.ms": 1}
            | {"transaction.timeout.ms": TIMEOUT_MS, "request.timeout.ms": 5000, "error_cb": lambda error: None}
            | QUICKLY,
            logger=QUIET,
        )
        _with_retries(lambda: producer.init_transactions(SECONDS_MAX))
        consumer.subscribe([self._source])
        while not self._stopping.is_set():
            messages = [message for message in consumer.consume(COPIED_AT_ONCE, 0.2) if message.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            nexts: dict[int, int] = {}
            for message in messages:
                producer.produce(self._target, message.value(), partition=message.partition())
                nexts[message.partition()] = message.offset() + 1
            offsets = [TopicPartition(self._source, partition, offset) for partition, offset in nexts.items()]
            metadata = consumer.consumer_group_metadata()
            try:
                _with_retries(partial(producer.send_offsets_to_transaction, offsets, metadata, SECONDS_MAX))
                _with_retries(lambda: producer.commit_transaction(SECONDS_MAX))
                self.copied += len(messages)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    _with_retries(lambda: producer.abort_transaction(SECONDS_MAX))
                raise

    def stop(self) -> None:
        self.end_soon()
        self.join()

    def end_soon(self) -> None:
        self._stopping.set()

    def join(self, seconds: float = 2 * SECONDS_MAX) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.errors.append(f"{self._name} does not end")


class TransactionLoad:
    """The load on a cluster with the topics `work`, `source` and `copies`, which have the same number of partitions."""

    def __init__(self, bootstrap: str, partitions: int, kinds: Sequence[type[TransactionalProducer]]) -> None:
        self._bootstrap = bootstrap
        self._partitions = range(partitions)
        places = self._places("work")
        self.producers = [kind(f"{kind.client}-{number}", bootstrap, places) for number, kind in enumerate(kinds)]
        self._source = RunningProducer("source", bootstrap, self._places("source"))
        self.copiers = [Copier(f"copier-{number}", bootstrap, "copiers", "source", "copies") for number in range(2)]
        self._readers = [RunningLibrdkafkaConsumer(bootstrap, topic, partitions) for topic in ("work", "copies")]
        self.wait_for_more()

    def _places(self, topic: str) -> list[Place]:
        return [(topic, partition) for partition in self._partitions]

    def wait_for_more(self, count: int = 3) -> None:
        """Waits until each producer has `count` more committed transactions, and more records were copied."""
        goals = {producer: producer.committed() + count for producer in self.producers}
        copied = self._copied() + count

        def behind() -> list[str]:
            found = [each.outcomes.name for each in self.producers if each.committed() < goals[each]]
            return found if self._copied() >= copied else [*found, "copiers"]

        with suppress(AssertionError):
            wait_until(lambda: not behind() or self._errors(), SECONDS_MAX)
        assert not behind(), f"{behind()} commit nothing more:\n{self}"
        assert not self._errors(), self._errors()[:5]

    def _copied(self) -> int:
        return sum(copier.copied for copier in self.copiers)

    def _errors(self) -> list[str]:
        return [
            error for each in (*self.producers, *self.copiers, *self._readers, self._source) for error in each.errors
        ]

    def check(self) -> None:
        """Ends the load. Checks that every transaction is whole or absent, and that readers saw exactly that."""
        self._source.stop()
        for producer in self.producers:
            producer.stop()
        wait_until(self._all_is_copied, SECONDS_MAX, "every record is copied")
        for copier in self.copiers:
            copier.stop()
        for topic in ("work", "source", "copies"):
            for place in self._places(topic):
                wait_until(lambda place=place: self._is_stable(place), SECONDS_MAX, f"all of {place} is decided")
        logs = {topic: stored(self._bootstrap, self._places(topic)) for topic in ("work", "source", "copies")}
        found = contradictions(logs["work"], [producer.outcomes for producer in self.producers])
        found += copying_contradictions(_by_partition(logs["source"]), _by_partition(logs["copies"]))
        for topic, reader in zip(("work", "copies"), self._readers, strict=True):
            reader.wait_for({place: len(logs[topic][place]) for place in reader.seen})
            found += [
                f"{place}: a reader saw what is not stored"
                for place in reader.seen
                if reader.seen[place] != logs[topic][place]
            ]
        found += self._errors()
        assert not found, "\n".join(found[:10])

    def _all_is_copied(self) -> bool:
        ends = [self._end(("source", partition), "read_uncommitted") for partition in self._partitions]
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "copiers", "isolation.level": "read_committed"}
        consumer = Consumer(settings | QUICKLY)
        try:
            told = consumer.committed([TopicPartition("source", partition) for partition in self._partitions], 10)
        except KafkaException:
            return False
        finally:
            consumer.close()
        return [place.offset for place in told] == ends

    def _is_stable(self, place: Place) -> bool:
        return self._end(place, "read_committed") == self._end(place, "read_uncommitted")

    def _end(self, place: Place, isolation: str) -> int:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "unused", "isolation.level": isolation}
        consumer = Consumer(settings | QUICKLY)
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(*place), timeout=10)[1])
        except KafkaException:
            return -1
        finally:
            consumer.close()

    def __str__(self) -> str:
        lines = []
        for producer in self.producers:
            counts = ", ".join(f"{producer.outcomes.count(outcome)} {outcome.value}" for outcome in Outcome)
            lines.append(f"{producer.outcomes.name}: {counts}; {dict(producer.failures)}")
        return "\n".join([*lines, *(f"{each.copied} copied; {dict(each.failures)}" for each in self.copiers)])

    def stop(self) -> None:
        """Stops everything; after a failure, clients may be unable to end soon, and are left behind."""
        for client in (*self.producers, *self.copiers):
            client.end_soon()
        for client in (*self.producers, *self.copiers):
            client.join(10)
        for each in (*self._readers, self._source):
            each.stop()


def _by_partition(logs: Mapping[Place, Any]) -> dict[int, Any]:
    return {partition: log for (_, partition), log in logs.items()}
