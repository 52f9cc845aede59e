from hosts import request_of
from running_workflow import RunningWorkflow, put, registered, running_workflow

from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.handlers.describe_partitions import handle
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import PartitionResolution
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_partitions_are_described_by_the_spus_that_hold_them() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    async with running_workflow(store) as running:
        await running.connect(1, 2)
        await running.administration.create_topics([NewTopic("orders", 1, 2)])
        response = await handle(running.host, CONTEXT, DescribePartitionsRequest(["orders"]))
        (partition,) = response.partitions
        assert (partition.resolution, partition.epoch) == ("Online", 0)
        assert sorted((each.spu_id, each.log_end) for each in partition.details) == [(1, 1), (2, 2)]


async def test_a_topic_that_is_not_there_is_an_error() -> None:
    async with running_workflow() as running:
        response = await handle(running.host, CONTEXT, DescribePartitionsRequest(["orders"]))
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_each_status_since_the_last_look_is_told_however_short_it_was() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2, 3))
    async with running_workflow(store) as running:
        await running.connect(1, 2, 3)
        await running.administration.create_topics([NewTopic("orders", 1, 3)])
        before = await handle(running.host, CONTEXT, DescribePartitionsRequest(["orders"]))
        assert before.partitions[0].status_changes == [], "nobody wants them"
        (partition,) = running.workflow.local.partitions.values()
        await running.lose(partition.status.leader)
        await running.workflow.writes.wait_until(lambda: is_led_again(running))
        request = DescribePartitionsRequest(["orders"], changes_after_us=before.last_change_us)
        after = await handle(running.host, CONTEXT, request)
        (described,) = after.partitions
        assert [(each.resolution, each.leader, each.epoch) for each in described.status_changes] == [
            ("Election", partition.status.leader, 0),
            ("CandidateFound", 3, 1),
            ("Online", 3, 1),
        ]
        again = DescribePartitionsRequest(["orders"], changes_after_us=after.last_change_us)
        (described,) = (await handle(running.host, CONTEXT, again)).partitions
        assert described.status_changes == []


def is_led_again(running: RunningWorkflow) -> bool:
    (partition,) = running.workflow.local.partitions.values()
    return partition.status.epoch == 1 and partition.status.resolution is PartitionResolution.ONLINE
