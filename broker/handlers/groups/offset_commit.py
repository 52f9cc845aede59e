"""OffsetCommit, versions 2–10: members commit offsets, and so may any client in a group without members.

- v2 to v4 may say how long to keep the offsets. v6 and later have the leader's epoch, v7 has static members, v9 has
  members of KIP-848 groups, v10 names topics by id.
- The response waits until the offsets are committed by the replication policy of the internal topic.
- The partitions have the order of the request; Kafka puts those that do not exist first.
- A request of more than 8 MiB is refused with INVALID_COMMIT_OFFSET_SIZE; Kafka has UNKNOWN_SERVER_ERROR above 1 MiB.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost


def handle(host: GroupHost, context: RequestContext, request: OffsetCommitRequest) -> None:
    def refused(error: KafkaError) -> OffsetCommitResponse:
        topics = [
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(each.partition_index, error.code) for each in topic.partitions],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.offsets.commit(request, context.api_version, waiter, moment)

    waiter: Waiter = Responding(context, refused)
    host.groups.ask(request.group_id, waiter, call)
