"""OffsetForLeaderEpoch, versions 2–4: where a leader epoch ended, so that a consumer notices a truncation (KIP-320)."""

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import NO_EPOCH
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tailrace.server.request_context import RequestContext

from .record_host import LeadingHost

NO_OFFSET = -1


def handle(
    host: LeadingHost, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(host, topic.topic, partition) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(host: LeadingHost, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        replica = host.replicas.leading(topic, asked.partition, asked.current_leader_epoch)
        if asked.leader_epoch > replica.spec.epoch and not host.is_sure_to_lead(replica):
            raise replica.not_leader()  # the epoch may exist, and this leader may not know it
        epoch, end = _end_of(replica, asked.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)


def _end_of(replica: Replica, epoch: int) -> tuple[int, int]:
    """Returns the epoch, or the last one before it that the log has, and where it ended. Raises KafkaError."""
    if epoch > replica.spec.epoch or epoch == NO_EPOCH:
        # An epoch that has not begun is undefined. If it were the latest one, the consumer would think its log agrees.
        return NO_EPOCH, NO_OFFSET
    if replica.is_merging:
        # Other stores may have more of the epoch, and recovery may know where later epochs begin before it has all
        # records of earlier ones. The consumer would take records that only this store lacks for truncated.
        raise replica.not_leading_yet()
    return (epoch, replica.log.log_end) if epoch == replica.spec.epoch else replica.log.epoch_end(epoch)
