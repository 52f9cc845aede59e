from hosts import request_of
from running_workflow import put, registered, running_workflow

from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.handlers.describe_segments import handle
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.describe_replica_segments import DescribeReplicaSegmentsResponse, ReplicaSegment
from tailrace.protocol.internal.describe_segments import DescribeSegmentsRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_segments_are_described_by_the_spus_that_hold_them() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("orders", 2, 1)])
        running.spus.segments[1] = DescribeReplicaSegmentsResponse(log_end=3, segments=[ReplicaSegment(0, 3)])
        response = await handle(running.host, CONTEXT, DescribeSegmentsRequest("orders", 1))
        (partition,) = response.partitions
        assert (partition.partition, partition.told_by, [each.end for each in partition.segments]) == (1, 1, [3])
        assert len((await handle(running.host, CONTEXT, DescribeSegmentsRequest("orders"))).partitions) == 2


async def test_a_topic_that_is_not_there_is_an_error() -> None:
    async with running_workflow() as running:
        response = await handle(running.host, CONTEXT, DescribeSegmentsRequest("orders"))
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
