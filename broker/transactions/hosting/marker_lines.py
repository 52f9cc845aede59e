"""The markers that wait to be written, by the SPUs that lead their partitions. Pure.

A marker leaves this table only when it is written, its partition does not exist any more, or its coordinator has ended.
Until then it is in the line of an SPU, in a request on its way, or it rests because nothing could write it.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from tailrace.cluster.cluster import Cluster
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
TRANSACTION_VERSION_FROM = 2
"""The first version of WriteTxnMarkers that says by which version of the protocol the transaction ended."""
UNKNOWN_SECONDS_MIN = 1.0
"""How long a partition must be unknown before it counts as deleted.

A new coordinator may learn of its election before it learns of a topic. It must not forget the markers for that topic.
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


class MarkerLines:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lines: dict[SpuId, deque[WaitingMarker]] = {}
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

    def add(self, marker: WaitingMarker, now: float) -> SpuId | None:
        """Puts the marker into the line of its leader, which is returned; without a leader the marker is not added."""
        found = self._cluster.partition(*marker.partition)
        if found is None:
            marker.unknown_since = now if marker.unknown_since is None else marker.unknown_since
            return None
        marker.unknown_since = None
        if found.leader == NO_LEADER:
            return None
        self._lines.setdefault(found.leader, deque()).append(marker)
        return found.leader

    def is_gone(self, marker: WaitingMarker, now: float) -> bool:
        """Returns whether the partition of the marker does not exist any more."""
        return marker.unknown_since is not None and now - marker.unknown_since >= UNKNOWN_SECONDS_MIN

    def rest(self, marker: WaitingMarker, until: float) -> None:
        """Keeps the marker until the time comes at which to try again."""
        heapq.heappush(self._resting, (until, next(self._sequence), marker))

    def take_rested(self, now: float) -> list[WaitingMarker]:
        """Takes out the resting markers that are due."""
        due = []
        while self._resting and self._resting[0][0] <= now:
            due.append(heapq.heappop(self._resting)[2])
        return due

    def take(self, spu: SpuId) -> list[WaitingMarker]:
        """Takes out the next markers for an SPU, as many as one request has. No partition gets two of one producer."""
        line = self._lines.get(spu)
        taken: list[WaitingMarker] = []
        keys = set()
        while line and len(taken) < MARKERS_PER_REQUEST_MAX:
            key = line[0].producer_id, line[0].partition
            if key in keys:
                break
            keys.add(key)
            taken.append(line.popleft())
        if line is not None and not line:
            del self._lines[spu]
        return taken

    def has_line(self, spu: SpuId) -> bool:
        """Returns whether markers wait for the SPU."""
        return spu in self._lines

    def forget_ended(self) -> None:
        """Removes the markers of coordinators that have ended."""
        for spu, line in list(self._lines.items()):
            kept = deque(marker for marker in line if not marker.owner.is_over)
            if kept:
                self._lines[spu] = kept
            else:
                del self._lines[spu]
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
