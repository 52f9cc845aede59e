"""ListPartitionReassignments, version 0: the partitions whose replicas are being changed.

- `replicas` are first the replicas that the partition will have, and then those that will leave. `adding_replicas` are
  new. `removing_replicas` leave when all of the former are live.
- As in Kafka, a named partition that is not being reassigned, or does not exist, is left out.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    try:
        ongoing = await host.administration.reassignments()
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    named = None
    if request.topics is not None:
        named = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
    topics: dict[str, OngoingTopicReassignment] = {}
    for each in ongoing:
        if named is None or (each.topic, each.partition) in named:
            topic = topics.setdefault(each.topic, OngoingTopicReassignment(each.topic))
            topic.partitions.append(
                OngoingPartitionReassignment(
                    each.partition, list(each.replicas), list(each.adding), list(each.removing)
                )
            )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
