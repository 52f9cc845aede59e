"""DeleteRecords, versions 0–2: deletes everything before an offset, for good.

- Offset -1 is the high watermark, and nothing beyond it can be deleted. An offset below the log start deletes nothing.
- The response waits until the next leader is sure to know of the deletion. That is, until every live replica knows it,
  or as many as a new leader asks, and the Streaming Controller for records on shelves. If that takes longer than the
  request's timeout, or than two minutes, the error is REQUEST_TIMED_OUT. The deletion happens nevertheless, as soon as
  those servers are online again.
- The low watermark in the response is the offset up to which all of them have deleted, as in Kafka, even after a
  timeout.
- A topic whose cleanup.policy does not delete keeps its records: POLICY_VIOLATION. An internal topic keeps them as
  well: INVALID_TOPIC_EXCEPTION.
"""

import trio

from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.shelf_lookup import earliest_offset
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tailrace.server.request_context import RequestContext

from .record_host import DeleteRecordsHost

TIMEOUT_MS_MAX = 120_000
"""The longest timeout: until the response, the connection handles no other request, and does not notice that its client
has disconnected."""
TO_HIGH_WATERMARK = -1
UNKNOWN = -1


async def handle(
    host: DeleteRecordsHost, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    deadline = trio.current_time() + min(max(request.timeout_ms, 0), TIMEOUT_MS_MAX) / 1000
    offsets: dict[str, dict[int, int]] = {}
    for asked in request.topics:
        offsets.setdefault(asked.name, {}).update({each.partition_index: each.offset for each in asked.partitions})
    topics = [
        DeleteRecordsTopicResult(topic, [DeleteRecordsPartitionResult(number, UNKNOWN) for number in partitions])
        for topic, partitions in offsets.items()
    ]
    deletions = []
    for topic in topics:
        for partition in topic.partitions:
            deletion = _Deletion(topic.name, partition)
            if await deletion.begin(host, offsets[topic.name][partition.partition_index]):
                deletions.append(deletion)
    host.storage_limit.measure()  # a producer may use the room at once
    for deletion in deletions:
        await deletion.end(host, deadline)
    return DeleteRecordsResponse(topics=topics)


class _Deletion:
    """The deletion in one partition: first in the local log, then on every other server that must know it."""

    def __init__(self, topic: str, answer: DeleteRecordsPartitionResult) -> None:
        self._topic = topic
        self._answer = answer
        self._replica: Replica
        self._offset = 0
        self._epoch = -1

    async def begin(self, host: DeleteRecordsHost, offset: int) -> bool:
        """Deletes from the local log. Returns False if the deletion is refused."""
        try:
            self._replica = host.replicas.leading(self._topic, self._answer.partition_index)
            self._offset = _checked(self._replica, offset)
            self._epoch = self._replica.spec.epoch
            await self._replica.delete_records(self._offset)
            host.offloading.request_deletion(self._replica, self._offset)
        except KafkaError as error:
            self._answer.error_code = error.code
            return False
        self._answer.low_watermark = self._deleted_end()
        return True

    async def end(self, host: DeleteRecordsHost, deadline: float) -> None:
        """Waits until every server that must know of the deletion does. If it times out, the low watermark in the
        response is the one from the beginning, as in Kafka."""
        answer = self._answer
        try:
            with trio.move_on_at(deadline) as waiting:
                await self._replica.wait_until_deleted(self._offset, self._epoch)
                await host.offloading.wait_until_deleted(self._replica, self._offset, self._epoch)
                # A follower may have gone offline meanwhile: what it has deleted stays deleted.
                answer.low_watermark = max(self._deleted_end(), self._offset)
        except KafkaError as error:
            answer.error_code, answer.low_watermark = error.code, UNKNOWN
        else:
            if waiting.cancelled_caught:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT

    def _deleted_end(self) -> int:
        """Returns the offset up to which all replicas have deleted, and all shelves."""
        return earliest_offset(self._replica.spec, self._replica.deleted_end())


def _checked(replica: Replica, offset: int) -> int:
    """Returns the offset at which the log will start. Raises KafkaError."""
    if replica.topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{replica.topic} is written by brokers alone")
    if not replica.settings.log.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "the cleanup.policy of the topic does not delete")
    if offset == TO_HIGH_WATERMARK:
        offset = replica.high_watermark
    if not 0 <= offset <= replica.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark")
    return offset
