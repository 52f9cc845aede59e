"""Writes the markers that end transactions in the partitions that this SPU leads, and reports when they are committed.

The coordinator of a transaction retries until each partition has reported its marker as committed. A marker that is in
the log already is therefore not written again, but is reported like the first one.
"""

from collections.abc import Callable, Sequence

import trio

from tailrace.broker.replicas.deadlines import Deadlines
from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from .marker_host import MarkerHost

COMMIT_SECONDS_MAX = 5.0
"""How long a request waits for markers to be committed. Then its sender retries, and waits for the same markers."""

OnWritten = Callable[[WriteTxnMarkersResponse], Callable[[], None] | None]
"""Takes the response, and may return a function that sends it. Responses to one client return the same function."""


def write_markers(host: MarkerHost, markers: Sequence[WritableTxnMarker], on_written: OnWritten) -> None:
    """Writes markers, and calls `on_written` once when each of them is committed or refused.

    The caller ends the turn afterwards, because replicas have grown.
    """
    pending = _PendingMarkers(on_written)
    for marker in markers:
        for topic in marker.topics:
            for partition in topic.partition_indexes:
                place = marker.producer_id, topic.name, partition
                try:
                    replica = _find_replica(host, topic.name, partition)
                    end = _append(host, replica, marker)
                except KafkaError as error:
                    pending.results[place] = error.code
                else:
                    pending.wait_for(place, replica, end)
    pending.start(host.deadlines)


def _find_replica(host: MarkerHost, topic: str, partition: int) -> Replica:
    """Returns the replica that takes markers for the partition. Raises KafkaError."""
    replica = host.replicas.leading(topic, partition)
    if replica.is_internal and topic != GROUPS_TOPIC:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} has no transactions")
    if replica.is_merging or host.isolation.is_isolated(replica):
        raise replica.not_leader()
    live, wanted = replica.live_count, replica.replicas_min
    if live < wanted:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{live} live replicas; min.insync.replicas is {wanted}")
    if replica.log.waits_to_roll:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "two segments are not committed, and there can be no third")
    return replica


def _append(host: MarkerHost, replica: Replica, marker: WritableTxnMarker) -> int:
    """Appends a marker unless it is in the log already. Returns an offset; all before it must be committed."""
    log = replica.log
    if log.producers.check_marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
    ):
        batch = marker_batch(
            log.log_end,
            replica.spec.epoch,
            marker.producer_id,
            marker.producer_epoch,
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=host.wall_clock.now_ms(),
        )
        replica.append(batch, read_header(batch))
        replica.settle_transactions()
        host.verifications.on_marker(replica, marker.producer_id)
        host.on_appended(replica)
        if replica.topic == GROUPS_TOPIC:
            host.groups.on_marker(replica, marker.producer_id, marker.producer_epoch, marker.transaction_result)
    return log.log_end


_Place = tuple[int, str, int]
"""A producer id, a topic and a partition: the place of a result in the response."""


class _PendingMarkers:
    """A request whose markers are not all committed yet."""

    def __init__(self, on_written: OnWritten) -> None:
        self._on_written = on_written
        self._waiting: dict[_PendingMarker, None] = {}
        self.results: dict[_Place, ErrorCode] = {}
        """The outcome for each place. As in Kafka, a later marker of the same producer replaces an earlier one."""
        self.done = False
        self._is_whole = False
        """Whether all markers are part of the request. A disk that fails may decide about the first ones earlier."""

    def wait_for(self, place: _Place, replica: Replica, end: int) -> None:
        """Waits until everything before `end` is committed."""
        self.results[place] = ErrorCode.NONE
        if replica.high_watermark < end:
            marker = _PendingMarker(self, place)
            self._waiting[marker] = None
            replica.wait_until_committed(end, marker)

    def start(self, deadlines: Deadlines) -> None:
        """Reports at once, or waits until the deadline at most."""
        self._is_whole = True
        if self._waiting:
            deadlines.add(trio.current_time() + COMMIT_SECONDS_MAX, self)
        else:
            self._finish_now()

    def on_decided(self, marker: "_PendingMarker", code: ErrorCode) -> Callable[[], None] | None:
        """Takes the outcome for one marker. Returns the function that sends the response, if it was the last one."""
        if self.results[marker.place] == ErrorCode.NONE:
            self.results[marker.place] = code
        del self._waiting[marker]
        if self._waiting or self.done or not self._is_whole:
            return None
        self.done = True
        return self._on_written(self._response())

    def on_deadline(self) -> None:
        for marker in self._waiting:
            self.results[marker.place] = ErrorCode.REQUEST_TIMED_OUT
        self._finish_now()

    def _finish_now(self) -> None:
        self.done = True
        send = self._on_written(self._response())
        if send is not None:
            send()

    def _response(self) -> WriteTxnMarkersResponse:
        response = WriteTxnMarkersResponse()
        producers: dict[int, WritableTxnMarkerResult] = {}
        topics: dict[tuple[int, str], WritableTxnMarkerTopicResult] = {}
        for (producer_id, topic, partition), code in self.results.items():
            if producer_id not in producers:
                producers[producer_id] = WritableTxnMarkerResult(producer_id)
                response.markers.append(producers[producer_id])
            if (producer_id, topic) not in topics:
                topics[producer_id, topic] = WritableTxnMarkerTopicResult(topic)
                producers[producer_id].topics.append(topics[producer_id, topic])
            topics[producer_id, topic].partitions.append(WritableTxnMarkerPartitionResult(partition, code))
        return response


class _PendingMarker:
    """One marker that waits to be committed."""

    __slots__ = ("_request", "place")

    def __init__(self, request: _PendingMarkers, place: _Place) -> None:
        self._request = request
        self.place = place

    @property
    def done(self) -> bool:
        return self._request.done

    def on_acknowledged(self) -> Callable[[], None] | None:
        return self._request.on_decided(self, ErrorCode.NONE)

    def on_refused(self, error: KafkaError) -> None:
        send = self._request.on_decided(self, error.code)
        if send is not None:
            send()
