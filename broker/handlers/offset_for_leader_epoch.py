"""OffsetForLeaderEpoch, versions 2–4: where a leader epoch ended, so that a consumer sees what was cut (KIP-320)."""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(spu, topic.topic, partition) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(spu: "Spu", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        replica = spu.replicas.leading(topic, asked.partition, asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    if asked.leader_epoch > replica.spec.epoch:
        # An epoch that has not been yet is undefined, not the latest: the consumer would think its log agrees.
        return EpochEndOffset(partition=asked.partition)
    if asked.leader_epoch == replica.spec.epoch:
        epoch, end = asked.leader_epoch, replica.log.log_end
    else:
        epoch, end = replica.log.epoch_end(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
