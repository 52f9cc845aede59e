"""AlterPartitionReassignments, versions 0–1: gives partitions other replicas, or cancels such a change.

- As in Kafka, the response says what was accepted. Records are copied afterwards; ListPartitionReassignments shows the
  progress. The new replicas are added first. The replicas that are not wanted any more leave when all new ones are
  live. Under `replication.policy` majority or nrw, they leave when the wanted replicas have taken over.
- A partition without replicas in the request cancels its reassignment, and the new replicas leave.
- Under `replication.policy=nrw:N,R,W` there are always N replicas. Another number is INVALID_REPLICA_ASSIGNMENT.
- If a partition is named twice, the last one counts.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tailrace.server.administration import Reassignment
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    named = {
        (topic.name, each.partition_index): Reassignment(
            topic.name, each.partition_index, None if each.replicas is None else tuple(map(SpuId, each.replicas))
        )
        for topic in request.topics
        for each in topic.partitions
    }
    wanted = list(named.values())
    try:
        outcomes = await host.administration.reassign(
            wanted,
            other_factor_allowed=request.allow_replication_factor_change,
            timeout_ms=request.timeout_ms,
        )
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    topics: dict[str, ReassignableTopicResponse] = {}
    for each, refusal in zip(wanted, outcomes, strict=True):
        topic = topics.setdefault(each.topic, ReassignableTopicResponse(each.topic))
        topic.partitions.append(_result(each.partition, refusal))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=list(topics.values()),
    )


def _result(partition: int, refusal: KafkaError | None) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(partition, ErrorCode.NONE, None)
    return ReassignablePartitionResponse(partition, refusal.code, refusal.message or None)
