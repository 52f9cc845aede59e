from hosts import request_of
from running_workflow import running_workflow

from tailrace.controller.handlers.list_offsets import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


async def test_the_sc_leads_no_partition() -> None:
    asked = ListOffsetsRequest(topics=[ListOffsetsTopic("orders", [ListOffsetsPartition(0), ListOffsetsPartition(3)])])
    async with running_workflow() as running:
        (topic,) = handle(running.host, request_of(ApiKey.LIST_OFFSETS), asked).topics
    assert topic.name == "orders"
    assert [(each.partition_index, each.error_code, each.offset) for each in topic.partitions] == [
        (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
    ]
