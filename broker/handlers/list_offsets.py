"""ListOffsets, versions 1–11: where a log starts and ends, and which record is the first at or after a time.

The special times of Kafka are -1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest on
local disks (v8), -5 the last offset in remote storage (v9), -6 the earliest that is not in remote storage (v11).
There is no remote storage: -4 answers as -2, and -5 and -6 know no offset, as in Kafka without it.

- The leader answers, with what is committed. While a new leader has not committed all that the one before left, offsets
  that depend on it are OFFSET_NOT_AVAILABLE, before v5 LEADER_NOT_AVAILABLE: a consumer must not begin before what it
  was told already.
- A follower answers those alone who name themselves replica -2, as tools do to look into it.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.replicas import Replica
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
DEBUGGING_REPLICA = -2
OFFSET_NOT_AVAILABLE_FROM = 5
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def handle(spu: "Spu", context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    asked = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    find = spu.replicas.reading if request.replica_id == DEBUGGING_REPLICA else spu.replicas.leading
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(
                        find, context.api_version, topic.name, partition, asked[topic.name, partition.partition_index]
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    find: Callable[[str, int, int], Replica],
    version: int,
    topic: str,
    partition: ListOffsetsPartition,
    times_asked: int,
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    try:
        if times_asked > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
        replica = find(topic, partition.partition_index, partition.current_leader_epoch)
        found = _find(replica, partition.timestamp, version)
    except KafkaError as error:
        response.error_code = error.code
        return response
    if found is not None:
        response.timestamp, response.offset, response.leader_epoch = found
    return response


def _find(replica: Replica, timestamp: int, version: int) -> tuple[int, int, int] | None:
    """Timestamp, offset and leader epoch; None where no record matches."""
    log = replica.log
    if version < _FIRST_VERSION.get(timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"time {timestamp} came with a later version")
    if timestamp == LATEST:
        _check_recovered(replica, version)
        return -1, replica.high_watermark, replica.spec.epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start, log.epoch_at(log.log_start)
    if timestamp == MAX_TIMESTAMP:
        _check_recovered(replica, version)
        return replica.max_timestamp()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp < 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"time {timestamp} has no meaning")
    found = replica.find_timestamp(timestamp)
    if found is None:
        _check_recovered(replica, version)
    return found


def _check_recovered(replica: Replica, version: int) -> None:
    if replica.is_recovering:
        code = (
            ErrorCode.OFFSET_NOT_AVAILABLE if version >= OFFSET_NOT_AVAILABLE_FROM else ErrorCode.LEADER_NOT_AVAILABLE
        )
        raise KafkaError(code, "what the leader before left is not committed yet")
