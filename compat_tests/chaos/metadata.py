"""What each server says about topics, and a watch that epochs never fall and that leaders are known brokers."""

import struct
import threading
from collections.abc import Mapping

from msgspec import Struct
from raw import METADATA, connect

VERSION = 7
"""The first version of Metadata with leader epochs."""
OF_ALL_TOPICS = struct.pack(">ib", -1, 0)
NOBODY = -1
PAUSE_SECONDS = 0.05


class PartitionMetadata(Struct, frozen=True):
    error: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    live: tuple[int, ...]


TopicsMetadata = dict[str, dict[int, PartitionMetadata]]


class ServerMetadata(Struct, frozen=True):
    brokers: frozenset[int]
    topics: TopicsMetadata
    """The partitions of each topic, by number."""


def fetch_metadata(address: str) -> ServerMetadata:
    """Asks a server for its metadata; raises OSError or EOFError if it does not respond."""
    with connect(address) as connection:
        return _decoded(connection.call(METADATA, VERSION, OF_ALL_TOPICS))


class MetadataWatch:
    """Asks every server for its metadata, again and again."""

    def __init__(self, addresses: Mapping[str, str], topics: frozenset[str]) -> None:
        """Starts the watch; `topics` are those that are never deleted, because epochs of a recreated topic start
        again."""
        self._addresses = addresses
        self._topics = topics
        self._highest: dict[tuple[str, str, int], int] = {}
        self._stopping = threading.Event()
        self.contradictions: list[str] = []
        self.answers = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def elections(self) -> int:
        """Returns the number of elections that the watch has seen."""
        highest: dict[tuple[str, int], int] = {}
        for (_, topic, number), epoch in self._highest.items():
            highest[topic, number] = max(epoch, highest.get((topic, number), 0))
        return sum(highest.values())

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            for server, address in self._addresses.items():
                try:
                    told = fetch_metadata(address)
                except (OSError, EOFError):
                    continue
                self.answers += 1
                self._compare(server, told)

    def _compare(self, server: str, told: ServerMetadata) -> None:
        for topic, partitions in told.topics.items():
            for number, partition in partitions.items():
                if partition.leader not in told.brokers | {NOBODY}:
                    self.contradictions.append(f"{server}: {topic}/{number}: {partition}, and brokers {told.brokers}")
        for topic in self._topics:
            for number, partition in told.topics.get(topic, {}).items():
                before = self._highest.get((server, topic, number), -1)
                if partition.epoch < before:
                    self.contradictions.append(f"{server}: {topic}/{number}: {before}, then {partition.epoch}")
                self._highest[server, topic, number] = max(before, partition.epoch)


def _decoded(body: bytes) -> ServerMetadata:
    reader = _Reader(body)
    reader.numbers("i")  # throttle time
    brokers = frozenset(reader.broker() for _ in range(reader.count()))
    reader.text()  # cluster id
    reader.numbers("i")  # controller
    topics = dict(reader.topic() for _ in range(reader.count()))
    return ServerMetadata(brokers, topics)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(f">{form}", self._body, self._position)
        self._position += struct.calcsize(f">{form}")
        return found

    def count(self) -> int:
        return max(self.numbers("i")[0], 0)

    def ids(self) -> tuple[int, ...]:
        return self.numbers(f"{self.count()}i")

    def text(self) -> str:
        (size,) = self.numbers("h")
        start, self._position = self._position, self._position + max(size, 0)
        return self._body[start : self._position].decode()

    def broker(self) -> int:
        (broker,) = self.numbers("i")
        self.text()  # host
        self.numbers("i")  # port
        self.text()  # rack
        return broker

    def topic(self) -> tuple[str, dict[int, PartitionMetadata]]:
        self.numbers("h")  # error
        name = self.text()
        self.numbers("b")  # whether the topic is internal
        return name, dict(self.partition() for _ in range(self.count()))

    def partition(self) -> tuple[int, PartitionMetadata]:
        error, number, leader, epoch = self.numbers("hiii")
        replicas, live = self.ids(), self.ids()
        self.ids()  # offline replicas
        return number, PartitionMetadata(error, leader, epoch, replicas, live)
