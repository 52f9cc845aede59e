"""The interface of a cluster of three nodes, which Tailrace and Apache Kafka both implement.

A node that is killed or stopped stays offline until it is started again.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from msgspec import Struct
from topics import every_leader_responds
from waiting import wait_until

PATIENCE_SECONDS = 60
"""How long to wait for a change; Apache Kafka needs ten seconds to notice that a broker was killed."""
CHANGE_SECONDS = {"operation_timeout": 20, "request_timeout": 30}
ROWS_AT_ONCE = 100
"""How many partitions one request creates.

If thousands were created at once, slow brokers would need more time than a request may take.
"""


class NodeCluster(Protocol):
    ids: tuple[int, ...]

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def node_pid(self, node: int) -> int: ...
    def is_running(self, node: int) -> bool: ...
    def kill_node(self, node: int) -> None: ...
    def stop_node(self, node: int) -> int: ...
    def start_node(self, node: int) -> None:
        """Starts the node, and returns when clients can work with it."""

    def kill_controller(self) -> None: ...
    def start_controller(self) -> None: ...
    def replica_directory(self, node: int, topic: str, partition: int) -> Path:
        """Returns the directory in which the node keeps its replica."""


class PartitionState(Struct, frozen=True):
    """The state of a partition as clients see it."""

    leader: int
    """The leader's node id, or -1 if there is no leader."""
    in_sync: frozenset[int]


class Watcher:
    """Observes a cluster as its clients do, and creates and deletes topics."""

    def __init__(self, bootstrap: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._addresses = bootstrap.split(",")
        self._patience_seconds = patience_seconds
        settings = {"bootstrap.servers": bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 200}
        # A frozen broker does not respond, so that a query must soon be sent to another broker. A change, however, must
        # be requested only once, so that it gets a longer timeout.
        self._admin = AdminClient(settings | {"socket.timeout.ms": 2000})
        self._changing = AdminClient(settings | {"socket.timeout.ms": 20_000})

    def create_topic(
        self, topic: str, partitions: int = 1, copies: int = 3, configs: Mapping[str, Any] | None = None
    ) -> None:
        """Creates a topic, and returns when all copies are in sync."""
        self._create(NewTopic(topic, partitions, copies, config=_settings(configs)))
        self.wait_until_all_lead(topic, partitions, copies)

    def create_topic_of_rows(
        self, topic: str, rows: Sequence[Sequence[int]], configs: Mapping[str, Any] | None = None
    ) -> None:
        """Creates a topic with this replica assignment, and returns when all copies are in sync.

        Each row lists the replicas of one partition, with the leader first.
        """
        first, *others = [
            [list(row) for row in rows[start : start + ROWS_AT_ONCE]] for start in range(0, len(rows), ROWS_AT_ONCE)
        ]
        self._create(NewTopic(topic, len(first), replica_assignment=first, config=_settings(configs)))
        partitions = len(first)
        for portion in others:
            self.wait_until_all_lead(topic, partitions, len(rows[0]))
            partitions += len(portion)
            wanted = NewPartitions(topic, partitions, replica_assignment=portion)
            self._changing.create_partitions([wanted], **CHANGE_SECONDS)[topic].result(30)
        self.wait_until_all_lead(topic, partitions, len(rows[0]))

    def _create(self, wanted: NewTopic) -> None:
        self._changing.create_topics([wanted], **CHANGE_SECONDS)[wanted.topic].result(30)

    def delete_topic(self, topic: str) -> None:
        self._changing.delete_topics([topic], **CHANGE_SECONDS)[topic].result(30)

    def states(self, topic: str) -> Mapping[int, PartitionState]:
        """Returns the state of each partition, or nothing while no broker responds."""
        try:
            told = self._admin.list_topics(topic, timeout=5).topics[topic]
        except KafkaException:
            return {}
        return {each.id: PartitionState(each.leader, frozenset(each.isrs)) for each in told.partitions.values()}

    def leader(self, topic: str, partition: int = 0) -> int:
        """Waits until the partition has a leader, and returns it."""
        return self.leader_other_than(-1, topic, partition)

    def leader_other_than(self, node: int, topic: str, partition: int = 0) -> int:
        found = -1

        def has_leader() -> bool:
            nonlocal found
            state = self.states(topic).get(partition)
            found = -1 if state is None else state.leader
            return found not in (-1, node)

        wait_until(has_leader, self._patience_seconds, f"a leader of {topic}/{partition} that is not {node}")
        return found

    def wait_until_in_sync(self, topic: str, partition: int = 0, copies: int = 3) -> None:
        """Waits until exactly `copies` copies of the partition are in sync."""

        def are_in_sync() -> bool:
            state = self.states(topic).get(partition)
            return state is not None and _is_in_sync(state, copies)

        wait_until(are_in_sync, self._patience_seconds, f"{copies} copies of {topic}/{partition} are in sync")

    def wait_until_all_lead(self, topic: str, partitions: int, copies: int) -> None:
        """Waits until all copies of all partitions are in sync, and every leader accepts requests."""
        self.wait_until_all_in_sync(topic, partitions, copies)
        lead = partial(every_leader_responds, self._admin, topic, partitions)
        wait_until(lead, self._patience_seconds, "leaders lead")

    def wait_until_all_in_sync(self, topic: str, partitions: int, copies: int = 3) -> None:
        """Waits until exactly `copies` copies of each partition are in sync."""

        def are_in_sync() -> bool:
            states = self.states(topic).values()
            return len(states) == partitions and all(_is_in_sync(state, copies) for state in states)

        wait_until(
            are_in_sync, self._patience_seconds, f"{copies} copies of {partitions} partitions of {topic} are in sync"
        )

    def wait_until_healthy(self) -> None:
        """Waits until every node says that all copies of all partitions are in sync.

        A node that has lost the controller still says what was so before, but the others say that it has left.
        """

        def are_healthy() -> bool:
            return all(_says_all_in_sync(address) for address in self._addresses)

        wait_until(are_healthy, self._patience_seconds, "every node says that all copies are in sync")


def _says_all_in_sync(address: str) -> bool:
    """Whether all copies of all partitions are in sync, as this node says."""
    # Only the first request of a new client certainly goes to the node at its bootstrap address.
    admin = AdminClient({"bootstrap.servers": address, "log_level": 2, "socket.timeout.ms": 2000})
    try:
        topics = admin.list_topics(timeout=5).topics.values()
    except KafkaException:
        return False
    partitions = [each for topic in topics for each in topic.partitions.values()]
    return all(each.leader != -1 and set(each.isrs) == set(each.replicas) for each in partitions)


def _settings(configs: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (configs or {}).items()}


def _is_in_sync(state: PartitionState, copies: int) -> bool:
    return state.leader != -1 and len(state.in_sync) == copies
