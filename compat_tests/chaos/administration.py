"""An admin client that constantly creates, grows, alters and deletes topics, and records what must exist at the end.

An acknowledged operation is in effect. An operation that failed may have happened, perhaps even after the error. No
more requests are then sent for that topic, and at the end it must be in the old or in the new state, and in no state
between them.
"""

import random
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from msgspec import Struct
from msgspec.structs import replace

SECONDS_MAX = 5
PARTITIONS_MAX = 6
RETENTION = "retention.ms"

TOO_FEW_SPUS = KafkaError.INVALID_REPLICATION_FACTOR
UNCERTAIN = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}
)
"""Errors after which the operation may have happened or not."""


class Topic(Struct, frozen=True):
    partitions: int
    replication_factor: int
    retention_ms: str


State = Topic | None
"""The state of a topic, or None if the topic does not exist."""


class RunningAdministrator:
    def __init__(self, bootstrap: str, seed: int, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._chance = random.Random(seed)
        self._prefix = prefix
        self._admin = self._new_client()
        self._open: dict[str, State] = {}
        """The topics whose state is known."""
        self.possible: dict[str, set[State]] = {}
        """The states that each topic may have at the end, by name."""
        self.acknowledged = 0
        self.refused = 0
        self.uncertain = 0
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"{self.acknowledged} acknowledged, {self.refused} refused, {self.uncertain} uncertain"

    def _new_client(self) -> Any:
        settings = {"bootstrap.servers": self._bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 200}
        return AdminClient(settings | {"topic.metadata.refresh.interval.ms": 1000})

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._do_something()
        except Exception as error:
            self.errors.append(f"the administrator failed: {error!r}")

    def _do_something(self) -> None:
        present = [name for name, state in self._open.items() if state is not None]
        if len(present) < 3 or (len(present) < 8 and self._chance.random() < 0.4):
            self._create()
            return
        name = self._chance.choice(present)
        topic = self._open[name]
        assert topic is not None
        what = self._chance.choice([self._grow, self._alter, self._delete])
        what(name, topic)

    def _create(self) -> None:
        """Creates a topic with a new name, or with the name of a deleted topic."""
        gone = [name for name, state in self._open.items() if state is None]
        is_again = gone and self._chance.random() < 0.5
        name = self._chance.choice(gone) if is_again else f"{self._prefix}-{len(self.possible)}"
        partitions = self._chance.randint(1, PARTITIONS_MAX)
        topic = Topic(partitions, self._chance.choice([1, 3]), str(self._chance.randint(10**8, 10**9)))
        new = NewTopic(name, partitions, topic.replication_factor, config={RETENTION: topic.retention_ms})
        self._ask(name, None, topic, lambda: self._admin.create_topics([new], **_patience())[name])

    def _grow(self, name: str, topic: Topic) -> None:
        wanted = topic.partitions + self._chance.randint(1, 3)
        new = NewPartitions(name, wanted)
        grown = replace(topic, partitions=wanted)
        self._ask(name, topic, grown, lambda: self._admin.create_partitions([new], **_patience())[name])

    def _alter(self, name: str, topic: Topic) -> None:
        altered = replace(topic, retention_ms=str(self._chance.randint(10**8, 10**9)))
        entry = ConfigEntry(RETENTION, altered.retention_ms, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self._ask(
            name,
            topic,
            altered,
            lambda: self._admin.incremental_alter_configs([resource], request_timeout=SECONDS_MAX)[resource],
        )

    def _delete(self, name: str, topic: Topic) -> None:
        self._ask(name, topic, None, lambda: self._admin.delete_topics([name], **_patience())[name])

    def _ask(self, name: str, before: State, after: State, start: Callable[[], Any]) -> None:
        self.possible[name] = {before, after}
        try:
            start().result(SECONDS_MAX * 4)
        except KafkaException as error:
            code = error.args[0].code()
            if code == TOO_FEW_SPUS:
                self.refused += 1
                self._open[name] = before
                self.possible[name] = {before}
                return
            if code not in UNCERTAIN:
                self.errors.append(f"{name}: {before} to {after}: {error.args[0]!r}")
            self.uncertain += 1
            self._open.pop(name, None)
        else:
            self.acknowledged += 1
            self._open[name] = after
            self.possible[name] = {after}


def _patience() -> dict[str, float]:
    return {"operation_timeout": SECONDS_MAX - 1, "request_timeout": SECONDS_MAX}
