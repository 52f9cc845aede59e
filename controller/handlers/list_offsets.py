"""ListOffsets, versions 1-11: an SC leads no partition, and answers so, as an SPU does for those that others lead.

It is here for admin clients that take what their bootstrap server offers for what the whole cluster does, such as
kafka-python: with it they know how new the cluster is, and ask the leaders, whom Metadata names.
"""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    ListOffsetsPartitionResponse(each.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
