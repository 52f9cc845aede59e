"""ListOffsets, versions 1–11: where a log starts and ends, and which record is the first at or after a time.

The special times of Kafka are -1 latest, -2 earliest, -3 the record with the largest timestamp (v7), -4 earliest on
local disks (v8), -5 the last offset in remote storage (v9), -6 the earliest that is not in remote storage (v11).
We have no remote storage: -4 and -6 answer as -2, and -5 knows no offset.
"""

from collections import Counter
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
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def handle(spu: "Spu", context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    asked = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(
                        spu, context.api_version, topic.name, partition, asked[topic.name, partition.partition_index]
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    spu: "Spu", version: int, topic: str, partition: ListOffsetsPartition, times_asked: int
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    try:
        if times_asked > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
        replica = spu.replicas.leading(topic, partition.partition_index, partition.current_leader_epoch)
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
        return -1, replica.high_watermark, replica.spec.epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD):
        return -1, log.log_start, log.epoch_at(log.log_start)
    if timestamp == MAX_TIMESTAMP:
        return log.max_timestamp(replica.high_watermark)
    if timestamp == LATEST_TIERED:
        return None
    if timestamp < 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"time {timestamp} has no meaning")
    return log.find_timestamp(timestamp, replica.high_watermark)
