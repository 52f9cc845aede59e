import json

from hosts import request_of
from running_workflow import put, registered, running_workflow

from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.handlers.undelete_topic import handle
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.undelete_topic import UndeleteTopicRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_a_deleted_topic_comes_back_by_its_name() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        (made,) = await running.administration.create_topics([NewTopic("orders", 1, 1)])
        assert isinstance(made, TopicSpec)
        await running.administration.delete_topics([made.id])
        undeleted = await handle(running.host, CONTEXT, UndeleteTopicRequest("orders"))
        assert json.loads(undeleted.document)["id"] == str(made.id)


async def test_an_unknown_deleted_topic_is_an_error() -> None:
    async with running_workflow() as running:
        refused = await handle(running.host, CONTEXT, UndeleteTopicRequest("orders"))
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID
