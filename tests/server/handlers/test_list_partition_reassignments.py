"""ListPartitionReassignments; test_alter_partition_reassignments.py lists running ones."""

from spus import running_spu

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


async def test_without_reassignments_nothing_is_listed(autojump_clock: object) -> None:
    async with running_spu() as running:
        await running.create("t", 2)
        client = await running.client()
        for topics in (None, [], [ListPartitionReassignmentsTopics("t", [0, 7])]):
            request = ListPartitionReassignmentsRequest(1000, topics)
            response = await client.request(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
            assert (response.error_code, response.topics) == (ErrorCode.NONE, [])
