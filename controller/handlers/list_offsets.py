"""ListOffsets, versions 1-11: responds that the SC leads no partition.

It exists for admin clients such as kafka-python, which assume that all servers offer what their bootstrap server
offers. They see from it how new the cluster is, and send their requests to the leaders that Metadata names.
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
