"""DeleteRecords, versions 0–2: everything below an offset goes, and stays gone after a restart.

- Offset -1 is the high watermark; beyond that nothing can be deleted. An offset below the log's start deletes nothing.
- The low watermark in the answer is the offset that the log starts at now.
- A topic without the delete policy keeps its records: POLICY_VIOLATION. The broker's own: INVALID_TOPIC_EXCEPTION.
"""

from typing import TYPE_CHECKING

from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu

TO_HIGH_WATERMARK = -1
UNKNOWN = -1


async def handle(spu: "Spu", context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    offsets = {
        topic.name: {partition.partition_index: partition.offset for partition in topic.partitions}
        for topic in request.topics
    }
    topics = [
        DeleteRecordsTopicResult(
            name=topic, partitions=[await _answer(spu, topic, *partition) for partition in partitions.items()]
        )
        for topic, partitions in offsets.items()
    ]
    spu.storage_limit.measure()  # who made room may produce at once
    return DeleteRecordsResponse(topics=topics)


async def _answer(spu: "Spu", topic: str, partition: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        log_start = await _delete(spu, topic, partition, offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=UNKNOWN, error_code=error.code)
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=log_start)


async def _delete(spu: "Spu", topic: str, partition: int, offset: int) -> int:
    replica = spu.replicas.leading(topic, partition)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} belongs to the broker")
    if not replica.settings.log.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "the cleanup.policy of the topic does not delete")
    if offset == TO_HIGH_WATERMARK:
        offset = replica.high_watermark
    if not 0 <= offset <= replica.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark")
    try:
        await replica.log.advance_log_start(offset)
    except OSError as error:
        if not replica.is_open:  # the topic was deleted meanwhile
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} was deleted") from error
        replica.go_offline(f"deleting records failed: {error}")
        raise replica.storage_error() from error
    if replica.replication is not None:
        replica.replication.on_deleted()
    return replica.log.log_start
