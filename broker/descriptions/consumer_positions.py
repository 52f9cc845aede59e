"""Describes the readable end and timestamps of led partitions, for computing group lag.

Group lag is computed from them. Only headers of batches are read, which the index locates.
"""

from itertools import islice

from tailrace.broker.groups.common.group_lag import NOTHING_THERE
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.describe_positions import (
    DescribedPartition,
    DescribedTopic,
    DescribePositionsRequest,
    DescribePositionsResponse,
)
from tailrace.runtime.turns import Turns
from tailrace.storage.log.log import Log

HEADERS_MAX = 100
"""How many headers are read to find one with records. So many control batches in a row do not occur, but could."""
OFFSETS_PER_TURN = 50
"""How many offsets are looked up before other tasks run."""


async def describe_positions(replicas: ReplicaRegistry, request: DescribePositionsRequest) -> DescribePositionsResponse:
    response = DescribePositionsResponse()
    turns = Turns(OFFSETS_PER_TURN)
    for topic in request.topics:
        described = DescribedTopic(topic.topic_id)
        response.topics.append(described)
        for asked in topic.partitions:
            found = DescribedPartition(asked.partition)
            described.partitions.append(found)
            try:
                turns.count += 1
                replica = replicas.leading(topic.topic_id, asked.partition)
                found.end = _readable_end(replica)
                for offset in asked.offsets:
                    found.timestamps_ms.append(timestamp_after(replica.log, offset, found.end))
                    turns.count += 1
                    await turns.take()
            except KafkaError as error:
                _refuse(found, error.code)
            except OSError:
                _refuse(found, ErrorCode.KAFKA_STORAGE_ERROR)
    return response


def timestamp_after(log: Log, offset: int, end: int) -> int:
    """Returns the timestamp of the first batch that a consumer at the offset reads, or NOTHING_THERE if there is
    none."""
    for header, _ in islice(log.headers(offset, end), HEADERS_MAX):
        if not header.is_control:
            return header.max_timestamp if header.is_log_append_time else header.base_timestamp
    return NOTHING_THERE


def _readable_end(replica: Replica) -> int:
    if replica.is_recovering:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE, "the leader is recovering: the high watermark is not known yet"
        )
    return replica.readable_end


def _refuse(found: DescribedPartition, code: ErrorCode) -> None:
    found.error_code, found.end, found.timestamps_ms = code, -1, []
