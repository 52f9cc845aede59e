from hosts import request_of
from running_workflow import put, registered, running_workflow

from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.handlers.delete_object import handle
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.delete_object import DeleteObjectRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_an_spu_that_holds_replicas_is_only_deleted_by_force() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("orders", 2, 1)])
        refused = await handle(running.host, CONTEXT, DeleteObjectRequest("spu", "1"))
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert "2 replicas of orders" in (refused.error_message or "")
        forced = await handle(running.host, CONTEXT, DeleteObjectRequest("spu", "1", force=True))
        assert forced.error_code == ErrorCode.NONE
        assert not running.workflow.local.spus


async def test_a_topic_is_deleted_as_kafkas_clients_delete_it() -> None:
    async with running_workflow() as running:
        await running.objects.create("topic", '{"name": "orders"}', 0)
        deleted = await handle(running.host, CONTEXT, DeleteObjectRequest("topic", "orders"))
        assert deleted.error_code == ErrorCode.NONE
        assert [each.topic.name for each in running.workflow.local.deleted_topics.values()] == ["orders"]
        again = await handle(running.host, CONTEXT, DeleteObjectRequest("topic", "orders"))
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
