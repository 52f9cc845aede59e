"""The markers that wait to be written, by the SPUs that lead their partitions. Pure.

A marker leaves this table only when it is written, its partition does not exist any more, or its coordinator has ended.
Until then it is in the line of an SPU, in a request on its way, or it rests because nothing could write it.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.coordinators import TRANSACTIONS_TOPIC
from tailrace.cluster.specs import NO_LEADER, TopicPartition
from tailrace.protocol.error_codes import ErrorCode, known_code
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_PER_REQUEST_MAX = 2000
TROUBLED_SECONDS = 10.0
"""For how long a partition counts as troubled after it could not write a marker."""
TRANSACTION_VERSION_FROM = 2
"""The first version of WriteTxnMarkers that says by which version of the protocol the transaction ended."""
UNKNOWN_SECONDS_MIN = 1.0
"""How long a partition must be unknown before it counts as deleted.

A new coordinator may learn of its election before it learns of a topic. It must not forget the markers for that topic.
While it does not know the topic of its own log, it knows no topic, and the time does not count. Neither does it count
while the controller hides a topic that may be that of the marker.
"""


class WaitingMarker(Struct, eq=False):
    """One marker for one partition."""

    owner: Any
    """The partition of `__transaction_state` whose coordinator sends the marker."""
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    partition: TopicPartition
    failures: int = 0
    """How often in a row the marker could not be written."""
    unknown_since: float | None = None
    """When the cluster was first seen without the partition."""


class Line(NamedTuple):
    """Identifies a line of markers.

    A request gets its response when all its markers are committed, or have timed out. So the partitions that lack
    replicas have lines of their own, and do not delay the others.
    """

    spu: SpuId
    is_troubled: bool


class MarkerLines:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._troubled_until: dict[TopicPartition, float] = {}
        """The partitions that could not write a marker of late."""
        self._lines: dict[Line, deque[WaitingMarker]] = {}
        self._resting: list[tuple[float, int, WaitingMarker]] = []
        """A heap of the markers that are tried again later, and when."""
        self._sequence = itertools.count()

    @property
    def waiting(self) -> int:
        """The number of markers that are in no request."""
        return len(self._resting) + sum(map(len, self._lines.values()))

    @property
    def wakes_at(self) -> float | None:
        """When the next resting marker is due; None if none rests."""
        return self._resting[0][0] if self._resting else None

    def add(self, marker: WaitingMarker, now: float) -> Line | None:
        """Puts the marker into a line for its leader, which is returned; without a leader the marker is not added."""
        found = self._cluster.partition(*marker.partition)
        if found is None:
            # Without the topic of the coordinator's own log, the mirror of the cluster is still empty.
            is_empty = TRANSACTIONS_TOPIC not in self._cluster.topics
            if is_empty or self._cluster.may_lack(marker.partition.topic):
                marker.unknown_since = None
            elif marker.unknown_since is None:
                marker.unknown_since = now
            return None
        marker.unknown_since = None
        if found.leader == NO_LEADER:
            return None
        line = Line(found.leader, self._troubled_until.get(marker.partition, now) > now)
        self._lines.setdefault(line, deque()).append(marker)
        return line

    def is_gone(self, marker: WaitingMarker, now: float) -> bool:
        """Returns whether the partition of the marker does not exist any more."""
        return marker.unknown_since is not None and now - marker.unknown_since >= UNKNOWN_SECONDS_MIN

    def rest(self, marker: WaitingMarker, until: float) -> None:
        """Keeps a marker that could not be written until the time comes at which to try again."""
        self._troubled_until[marker.partition] = until + TROUBLED_SECONDS
        heapq.heappush(self._resting, (until, next(self._sequence), marker))

    def take_rested(self, now: float) -> list[WaitingMarker]:
        """Takes out the resting markers that are due."""
        due = []
        while self._resting and self._resting[0][0] <= now:
            due.append(heapq.heappop(self._resting)[2])
        if not self._resting:  # the table is small enough to be looked through after the last one
            self._troubled_until = {each: until for each, until in self._troubled_until.items() if until > now}
        return due

    def take(self, key: Line) -> list[WaitingMarker]:
        """Takes out the next markers of a line, as many as one request has. No partition gets two of one producer."""
        line = self._lines.get(key)
        taken: list[WaitingMarker] = []
        places = set()
        while line and len(taken) < MARKERS_PER_REQUEST_MAX:
            place = line[0].producer_id, line[0].partition
            if place in places:
                break
            places.add(place)
            taken.append(line.popleft())
        if line is not None and not line:
            del self._lines[key]
        return taken

    def has_line(self, key: Line) -> bool:
        """Returns whether markers wait in the line."""
        return key in self._lines

    def forget_ended(self) -> None:
        """Removes the markers of coordinators that have ended."""
        for key, line in list(self._lines.items()):
            kept = deque(marker for marker in line if not marker.owner.is_over)
            if kept:
                self._lines[key] = kept
            else:
                del self._lines[key]
        self._resting = [entry for entry in self._resting if not entry[2].owner.is_over]
        heapq.heapify(self._resting)


def request_of(markers: Iterable[WaitingMarker], version: int) -> WriteTxnMarkersRequest:
    """Makes the request that writes the markers, with one entry for each transaction."""
    by_transaction: dict[tuple[int, int, bool, int, int], dict[str, list[int]]] = {}
    for each in markers:
        transaction_version = each.transaction_version if version >= TRANSACTION_VERSION_FROM else 0
        key = each.producer_id, each.producer_epoch, each.is_commit, each.coordinator_epoch, transaction_version
        topics = by_transaction.setdefault(key, {})
        topics.setdefault(each.partition.topic, []).append(each.partition.partition)
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=is_commit,
                topics=[WritableTxnMarkerTopic(topic, partitions) for topic, partitions in topics.items()],
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
            )
            for (producer_id, producer_epoch, is_commit, coordinator_epoch, transaction_version), topics in (
                by_transaction.items()
            )
        ]
    )


def outcomes(
    markers: Iterable[WaitingMarker], response: WriteTxnMarkersResponse
) -> Iterator[tuple[WaitingMarker, ErrorCode]]:
    """Yields what became of each marker. One that the response leaves out was not written."""
    codes = {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    for marker in markers:
        code = codes.get((marker.producer_id, *marker.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
        yield marker, known_code(code)
