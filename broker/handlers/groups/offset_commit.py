"""OffsetCommit, versions 2–10: what members have worked off, or anybody of a group without members.

- v2 to v4 may say how long the offsets are to be kept, v6 and later carry the leader's epoch, v7 knows static members,
  v9 members of KIP-848 groups, v10 names topics by ids.
- Answered when the offsets are committed by the replication policy of the internal topic.
- Partitions are answered in the order of the request; Kafka puts those that do not exist first.
- A commit of more than 8 MiB is refused with INVALID_COMMIT_OFFSET_SIZE; Kafka has an UNKNOWN_SERVER_ERROR above 1 MiB.
"""

from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import Responding


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
