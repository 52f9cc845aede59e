"""Where consumers of partitions led here stand: how far they could read, and how old what they read next is.

Only headers of batches are read, each where the index says that it lies.
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
"""Looked at for one with records: there are never that many others in a row, but nobody says so."""
OFFSETS_PER_TURN = 50
"""After so many others get their turn."""


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
    """Of the first batch that a consumer at the offset reads; NOTHING_THERE where there is none below `end`."""
    for header, _ in islice(log.headers(offset, end), HEADERS_MAX):
        if not header.is_control:
            return header.max_timestamp if header.is_log_append_time else header.base_timestamp
    return NOTHING_THERE


def _readable_end(replica: Replica) -> int:
    if replica.is_recovering:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "what the leader before left is not committed yet")
    return replica.readable_end


def _refuse(found: DescribedPartition, code: ErrorCode) -> None:
    found.error_code, found.end, found.timestamps_ms = code, -1, []
