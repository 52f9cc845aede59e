"""Idempotent producers with acks=all and consumers of several clients at work, and the checks at the end."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from chaos.other_producers import RunningKafkaPythonProducer
from chaos.records import (
    AnyRunningProducer,
    History,
    Log,
    Place,
    RunningConsumer,
    RunningLibrdkafkaConsumer,
    RunningProducer,
    stored,
)
from chaos.replica_logs import StoredBatch, control_offsets, differences, read_replica, restarted_epochs
from node_cluster import Watcher
from peer.apache_kafka_cluster import ApacheKafkaCluster
from waiting import wait_until

COPYING_SECONDS_MAX = 20


class Nodes(Protocol):
    ids: tuple[int, ...]

    @property
    def bootstrap(self) -> str: ...
    def replica_directory(self, node: int, topic: str, partition: int) -> Path: ...


class Load:
    def __init__(
        self,
        nodes: Nodes,
        topics: Mapping[str, int],
        producers: Sequence[type[AnyRunningProducer]] = (RunningProducer, RunningKafkaPythonProducer),
    ) -> None:
        """Starts producers and consumers; `topics` maps each topic to the number of its partitions."""
        self._nodes = nodes
        self._places = [(topic, number) for topic, partitions in topics.items() for number in range(partitions)]
        self._producers = [kind(kind.client, nodes.bootstrap, self._places) for kind in producers]
        self._consumers = [
            kind(nodes.bootstrap, topic, partitions)
            for topic, partitions in topics.items()
            for kind in (RunningConsumer, RunningLibrdkafkaConsumer)
        ]
        self._logs: dict[Place, Log] = {}
        self.wait_for_more()

    def wait_for_more(self, count: int = 20) -> None:
        """Waits until each producer has `count` more acknowledged records in each partition."""
        for producer in self._producers:
            producer.wait_for_more(count)

    def acknowledged(self) -> int:
        return sum(producer.acknowledged_count() for producer in self._producers)

    def check(self) -> None:
        """Ends the load. Checks that nothing was lost, moved or duplicated, and that all copies are the same."""
        for producer in self._producers:
            producer.stop()
        watcher = Watcher(self._nodes.bootstrap)
        for place in self._places:
            watcher.wait_until_in_sync(*place)
        self.wait_until_copies_agree()
        self._logs = stored(self._nodes.bootstrap, self._places)
        for consumer in self._consumers:
            consumer.wait_for({place: len(self._logs[place]) for place in consumer.seen})
        sent = [producer.sent() for producer in self._producers]
        copies = {place: self._copy(self._nodes.ids[0], place) for place in self._places}
        unseen = {place: control_offsets(copy) for place, copy in copies.items()}
        history = History(self._logs, sent, [consumer.seen for consumer in self._consumers], unseen)
        _assert_none([error for each in (*self._producers, *self._consumers) for error in each.errors])
        contradictions = history.contradictions()
        if not isinstance(self._nodes, ApacheKafkaCluster):  # it reports gaps that a change of leaders has caused
            contradictions += [f"{place}: {each}" for place, copy in copies.items() for each in restarted_epochs(copy)]
        _assert_none(contradictions)

    def values(self, place: Place) -> set[bytes]:
        """Returns all values that the partition has at the end."""
        return {value for _, value in self._logs[place]}

    def ends(self) -> dict[Place, int]:
        """Returns the offset after the last record of each partition at the end."""
        return {place: log[-1][0] + 1 for place, log in self._logs.items()}

    def wait_until_copies_agree(self) -> None:
        with contextlib.suppress(AssertionError):  # the differences say more than the timeout
            wait_until(lambda: not self.differences(), COPYING_SECONDS_MAX)
        _assert_none(self.differences())

    def differences(self, up_to: Mapping[Place, int] | None = None) -> list[str]:
        """Returns the differences between the copies, below these offsets."""
        return [
            each
            for place in self._places
            for each in differences(
                {node: self._copy(node, place) for node in self._nodes.ids}, (up_to or {}).get(place, math.inf)
            )
        ]

    def _copy(self, node: int, place: Place) -> list[StoredBatch]:
        return read_replica(self._nodes.replica_directory(node, *place))

    def stop(self) -> None:
        for each in (*self._producers, *self._consumers):
            each.stop()


def _assert_none(complaints: list[str]) -> None:
    assert not complaints, "\n".join(complaints[:10])
