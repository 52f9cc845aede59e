"""Producers and consumers that run during faults, and the rules for everything that they observe."""

import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from clients.kafka_python import complete_joins, tolerate_unknown_brokers
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import UnknownBrokerIdError
from msgspec import Struct, field
from waiting import wait_until

DELIVERY_SECONDS_MAX = 60
"""The clients' own time limit; a client that is not served within it reports an error, and the test fails."""
READING_SECONDS_MAX = 40
QUICKLY = {
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
    "socket.timeout.ms": 5000,  # a frozen server does not close its connections
    "log_level": 2,
}

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # otherwise it logs many lines for each broken connection

Place = tuple[str, int]
"""A topic, and the number of a partition."""
Log = list[tuple[int, bytes]]
"""Offsets and values."""


class Sent(Struct, frozen=True):
    """What one producer sent: in each partition, the numbers from 0 on, together with its name."""

    name: str
    counts: Mapping[Place, int]
    acknowledged: Mapping[Place, Log]

    def ends(self) -> dict[Place, int]:
        """Returns the offset after the last acknowledged record of each partition.

        A client that is told that a record is a duplicate, or that comes after one, does not learn the record's offset.
        The offset then follows from the last record with a known offset and the number of records between them.
        """
        ends = {}
        for place, log in self.acknowledged.items():
            by_number = {int(value.rpartition(b":")[2]): offset for offset, value in log}
            known = max(number for number, offset in by_number.items() if _is_known(offset))
            ends[place] = by_number[known] + max(by_number) - known + 1
        return ends


class AnyRunningProducer(ABC):
    """A producer that sends to all partitions in turn until it is told to stop, whatever its client."""

    client: str

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place]) -> None:
        self._name = name
        self._bootstrap = bootstrap
        self._places = places
        self._stopping = threading.Event()
        self._counts: dict[Place, int] = defaultdict(int)
        self._acknowledged: dict[Place, Log] = defaultdict(list)
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def _run(self) -> None:
        """Sends records in its own thread."""

    def _to_send(self) -> Iterator[tuple[Place, bytes]]:
        """Yields the next value for each partition in turn, until the producer is told to stop.

        The caller counts each value that it has sent.
        """
        for place in itertools.cycle(self._places):
            if self._stopping.is_set():
                return
            yield place, b"%s:%d" % (self._name.encode(), self._counts[place])

    def wait_for_more(self, count: int) -> None:
        """Waits until each partition has `count` more acknowledged records."""
        goals = {place: len(self._acknowledged[place]) + count for place in self._places}

        def behind() -> list[Place]:
            return [place for place, goal in goals.items() if len(self._acknowledged[place]) < goal]

        wait_until(
            lambda: self.errors or not behind(),
            DELIVERY_SECONDS_MAX,
            f"{count} more acknowledged records of {self._name} in every partition",
        )
        assert not self.errors, self.errors[:5]

    def acknowledged_count(self) -> int:
        return sum(map(len, self._acknowledged.values()))

    def stop(self) -> None:
        """Stops the producer, and returns after the last acknowledgement."""
        self._stopping.set()
        self._thread.join()

    def sent(self) -> Sent:
        return Sent(self._name, dict(self._counts), dict(self._acknowledged))


class RunningProducer(AnyRunningProducer):
    """A producer that uses librdkafka."""

    client = "librdkafka"

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place], **settings: object) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": "all", "request.timeout.ms": 5000}
            | {"delivery.timeout.ms": DELIVERY_SECONDS_MAX * 1000, "error_cb": self._on_error}
            | QUICKLY
            | (named or {"enable.idempotence": True})
        )
        super().__init__(name, bootstrap, places)

    def _run(self) -> None:
        for place, value in self._to_send():
            topic, partition = place
            try:
                self._producer.produce(topic, value, partition=partition, on_delivery=self._on_delivery)
                self._counts[place] += 1
            except BufferError:
                pass  # the queue is full of records for partitions without a leader
            self._producer.poll(0.002)

    def _on_error(self, error):
        """Records errors. Without this callback, any call could raise a fatal error."""
        if error.fatal():
            self.errors.append(f"{self._name}: {error}")

    def _on_delivery(self, error, message):
        if error is not None:
            self.errors.append(f"{self._name}: {message.topic()}/{message.partition()}: {error.str()}")
        else:
            place = message.topic(), message.partition()
            self._acknowledged[place].append((message.offset(), message.value()))

    def stop(self) -> None:
        super().stop()
        if left := self._producer.flush(DELIVERY_SECONDS_MAX):
            self.errors.append(f"{self._name}: {left} records were neither delivered nor refused")


class RunningConsumer:
    """Reads a topic from its beginning with kafka-python until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=1000,
        )
        tolerate_unknown_brokers(self._consumer)
        complete_joins(self._consumer)
        self._consumer.assign([PythonTopicPartition(topic, number) for number in range(partitions)])
        self._stopping = threading.Event()
        self.seen: dict[Place, Log] = {(topic, number): [] for number in range(partitions)}
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for place, records in self._poll().items():
                    self.seen[place.topic, place.partition] += [(each.offset, each.value) for each in records]
        except Exception as error:
            self.errors.append(f"a consumer failed: {error!r}")

    def _poll(self):
        try:
            return self._consumer.poll(timeout_ms=100)
        except UnknownBrokerIdError:  # the leader has just gone from the metadata, which another watch checks
            return {}

    def wait_for(self, counts: Mapping[Place, int]) -> None:
        wait_for(self, counts)

    def progress(self) -> dict[Place, int]:
        return {place: len(seen) for place, seen in self.seen.items()}

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close(autocommit=False)


class RunningLibrdkafkaConsumer:
    """Reads a topic with librdkafka, which looks up where epochs end and so notices a truncated log."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        unused = {"group.id": "unused", "enable.auto.commit": False}
        # A missing offset must be an error, and not a reason to start at the beginning.
        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "error"}
        self._consumer = Consumer(settings | unused | QUICKLY)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._stopping = threading.Event()
        self.seen: dict[Place, Log] = {(topic, number): [] for number in range(partitions)}
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    self.seen[message.topic(), message.partition()].append((message.offset(), message.value()))
                else:
                    self.errors.append(f"a consumer failed: {message.topic()}/{message.partition()}: {message.error()}")

    def wait_for(self, counts: Mapping[Place, int]) -> None:
        wait_for(self, counts)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


def wait_for(consumer: RunningConsumer | RunningLibrdkafkaConsumer, counts: Mapping[Place, int]) -> None:
    """Waits until the consumer has read `counts` records of each partition."""

    def behind() -> list[Place]:
        return [place for place, seen in consumer.seen.items() if len(seen) < counts[place]]

    wait_until(lambda: consumer.errors or not behind(), DELIVERY_SECONDS_MAX, "a consumer reads to the end")


def stored(bootstrap: str, places: Sequence[Place]) -> dict[Place, Log]:
    """Reads all records of these partitions with a new client."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True} | QUICKLY)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in places])
    logs: dict[Place, Log] = {place: [] for place in places}
    unread = set(places)
    deadline = time.monotonic() + READING_SECONDS_MAX
    while unread:
        assert time.monotonic() < deadline, f"{sorted(unread)} could not be read in {READING_SECONDS_MAX} s"
        for message in consumer.consume(10_000, 0.2):
            place = message.topic(), message.partition()
            if message.error() is None:
                logs[place].append((message.offset(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unread.discard(place)
            else:
                raise AssertionError(f"{place}: {message.error()}")
    consumer.close()
    return logs


class History(Struct):
    """Everything that producers sent, that consumers saw meanwhile, and that is stored at the end."""

    logs: dict[Place, Log]
    sent: Sequence[Sent]
    seen: Iterable[Mapping[Place, Log]] = field(default_factory=list)
    unseen: Mapping[Place, set[int]] = field(default_factory=dict)
    """The offsets of control batches, which clients do not see."""

    def contradictions(self) -> list[str]:
        found = []
        for place, log in self.logs.items():
            offsets = [offset for offset, _ in log]
            unseen = {offset for offset in self.unseen.get(place, ()) if offset <= max(offsets, default=-1)}
            if sorted([*offsets, *unseen]) != list(range(len(offsets) + len(unseen))) or offsets != sorted(offsets):
                found.append(f"{place}: the offsets have gaps or duplicates")
            found += [f"{place}: {each}" for sent in self.sent for each in _disagreements(place, log, sent)]
            for number, seen in enumerate(self.seen):
                if place in seen and seen[place] != log:
                    found.append(f"{place}: consumer {number} saw {_first(seen[place], log)} is stored")
        return found


def _disagreements(place: Place, log: Log, sent: Sent) -> Iterable[str]:
    prefix = sent.name.encode() + b":"
    numbers = [int(value.removeprefix(prefix)) for _, value in log if value.startswith(prefix)]
    count = sent.counts.get(place, 0)
    if numbers != list(range(count)):
        lost = sorted(set(range(count)) - set(numbers))
        doubled = [number for number, times in Counter(numbers).items() if times > 1]
        yield (
            f"{sent.name} sent {count}, {len(numbers)} are stored; some are lost, reordered or duplicated; "
            f"lost: {lost[:5]}, duplicated: {doubled[:5]}"
        )
    by_offset = dict(log)
    for offset, value in sent.acknowledged.get(place, ()):
        if _is_known(offset) and by_offset.get(offset) != value:
            yield f"{sent.name}: {value!r} was acknowledged at {offset}, where {by_offset.get(offset)!r} is stored now"


def _is_known(offset: int | None) -> bool:
    return offset is not None and offset >= 0


def _first(seen: Log, log: Log) -> str:
    """Describes the first difference."""
    before = None
    for mine, theirs in itertools.zip_longest(seen, log):
        if mine != theirs:
            return f"{mine} after {before}, where {theirs}"
        before = mine
    return "nothing else than"
