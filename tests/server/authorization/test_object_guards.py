"""Our own APIs with access rules: objects of the Streaming Controller, streams, and positions."""

import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from authorized_spu import rule
from hosts import request_of
from msgspec import Struct
from running_workflow import RunningWorkflow, put, registered, running_workflow
from trio.testing import wait_all_tasks_blocked

from tailrace.controller.handlers import load
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.internal.delete_object import DeleteObjectRequest
from tailrace.protocol.internal.describe_partitions import DescribePartitionsRequest
from tailrace.protocol.internal.describe_positions import (
    AskedPartition,
    AskedTopic,
    DescribedTopic,
    DescribePositionsRequest,
    DescribePositionsResponse,
)
from tailrace.protocol.internal.describe_server import DescribeServerRequest
from tailrace.protocol.internal.list_objects import ListObjectsRequest
from tailrace.protocol.internal.read_stream_state import (
    ReadStreamStateRequest,
    ReadStreamStateResponse,
    StreamGroup,
)
from tailrace.protocol.internal.update_object import UpdateObjectRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.security_records import ACL
from tailrace.server.authorization.authorization import Authorization, Handle

NONE = ErrorCode.NONE
OF_TOPIC, OF_CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC_DESCRIBE, CLUSTER_DESCRIBE = (Res.TOPIC, Op.DESCRIBE), (Res.CLUSTER, Op.DESCRIBE)


class _Guarded(Struct):
    running: RunningWorkflow
    authorization: Authorization

    def allow(self, *rules: tuple[Res, Op] | AclRecord) -> None:
        for each in rules:
            record = each if isinstance(each, AclRecord) else rule(*each)
            self.running.workflow.cluster.put_security(record)

    def remove_all(self) -> None:
        cluster = self.running.workflow.cluster
        for key in list(cluster.security.acls):
            cluster.remove_security(ACL, key)

    async def ask(self, key: InternalApiKey, request: object, handle: Handle | None = None) -> Any:
        """Returns the response of the guarded handler of the SC, or of another handler."""
        host: Any = self.running.host
        context = request_of(key)
        reply: Any = self.authorization.guarded(
            key, handle or (lambda context, request: load(key)(host, context, request))
        )(context, request)
        response = await reply if isinstance(reply, Coroutine) else reply
        return response if context.amend is None else context.amend(response)

    async def listed(self, kind: str, *names: str) -> object:
        response = await self.ask(InternalApiKey.LIST_OBJECTS, ListObjectsRequest(kind, list(names) or None))
        return response.error_code or sorted(each.name for each in response.objects)


@asynccontextmanager
async def _guarded() -> AsyncIterator[_Guarded]:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.create_topic("orders", 2)
        await running.create_topic("payments")
        await wait_all_tasks_blocked()  # the topics have leaders
        cluster = running.workflow.cluster
        yield _Guarded(running, Authorization(Authorizer(cluster.security), cluster, lambda: True))


async def test_topics_and_partitions_are_listed_for_whom_may_describe_them() -> None:
    async with _guarded() as guarded:
        assert await guarded.listed("topic") == []
        assert await guarded.listed("topic", "orders") == OF_TOPIC
        assert await guarded.listed("spu") == OF_CLUSTER
        guarded.allow(rule(*TOPIC_DESCRIBE, "orders"))
        assert await guarded.listed("topic") == ["orders"]
        assert await guarded.listed("partition") == ["orders/0", "orders/1"]
        assert await guarded.listed("partition", "orders/1") == ["orders/1"]
        assert await guarded.listed("partition", "orders", "payments") == OF_TOPIC
        guarded.allow(CLUSTER_DESCRIBE)
        assert await guarded.listed("topic") == ["orders", "payments"]
        assert await guarded.listed("spu") == ["1"]


async def test_partitions_are_described_for_whom_may_describe_the_topic() -> None:
    async with _guarded() as guarded:

        async def described(topics: list[str] | None) -> object:
            response = await guarded.ask(InternalApiKey.DESCRIBE_PARTITIONS, DescribePartitionsRequest(topics))
            return response.error_code or [(each.topic, each.partition) for each in response.partitions]

        assert await described(None) == []
        assert await described(["orders"]) == OF_TOPIC
        guarded.allow(rule(*TOPIC_DESCRIBE, "orders"))
        assert await described(None) == [("orders", 0), ("orders", 1)]
        assert await described(["orders"]) == [("orders", 0), ("orders", 1)]
        assert await described(["payments"]) == OF_TOPIC


async def test_topics_need_rules_for_topics_and_other_objects_those_for_the_cluster() -> None:
    async with _guarded() as guarded:

        async def create(kind: str, document: str) -> int:
            request = CreateObjectRequest(kind, document, 0)
            code: int = (await guarded.ask(InternalApiKey.CREATE_OBJECT, request)).error_code
            return code

        async def delete(kind: str, name: str) -> int:
            code: int = (await guarded.ask(InternalApiKey.DELETE_OBJECT, DeleteObjectRequest(kind, name))).error_code
            return code

        document = json.dumps({"kind": "topic", "name": "new", "spec": {"partitions": 1, "replicationFactor": 1}})
        denied = (OF_TOPIC, OF_CLUSTER, OF_CLUSTER, OF_TOPIC, OF_CLUSTER)

        async def codes() -> tuple[int, ...]:
            return (
                await create("topic", document),
                await create("topic", "no document"),
                await create("spu", document),
                await delete("topic", "payments"),
                await delete("spu", "7"),
            )

        assert await codes() == denied
        assert await create("topic", "[" * 100_000) == OF_CLUSTER
        guarded.allow(rule(Res.TOPIC, Op.CREATE, "new"), rule(Res.TOPIC, Op.DELETE, "payments"))
        after = await codes()
        assert OF_TOPIC not in after
        assert [after[number] for number in (1, 2, 4)] == [OF_CLUSTER] * 3
        request = UpdateObjectRequest("topic", document)
        assert (await guarded.ask(InternalApiKey.UPDATE_OBJECT, request)).error_code == OF_CLUSTER
        guarded.allow((Res.CLUSTER, Op.ALTER))
        assert OF_CLUSTER not in await codes()


async def test_groups_of_a_stream_are_shown_to_whom_may_describe_them() -> None:
    def handle(context: object, request: object) -> ReadStreamStateResponse:
        return ReadStreamStateResponse(groups=[StreamGroup("a"), StreamGroup("b")])

    async with _guarded() as guarded:
        request = ReadStreamStateRequest("orders")
        key = InternalApiKey.READ_STREAM_STATE
        assert (await guarded.ask(key, request, handle)).error_code == OF_TOPIC
        guarded.allow(rule(*TOPIC_DESCRIBE, "orders"), rule(Res.GROUP, Op.READ, "b"))
        response = await guarded.ask(key, request, handle)
        assert [each.group for each in response.groups] == ["b"]


async def test_positions_are_told_per_topic() -> None:
    def handle(context: object, request: DescribePositionsRequest) -> DescribePositionsResponse:
        return DescribePositionsResponse([DescribedTopic(each.topic_id) for each in request.topics])

    async with _guarded() as guarded:
        ids = {topic.id: name for name, topic in guarded.running.workflow.cluster.topics.items()}
        guarded.allow(rule(*TOPIC_DESCRIBE, "orders"))
        asked = [AskedTopic(each, [AskedPartition(0)]) for each in (*ids, UUID(int=7))]
        response = await guarded.ask(InternalApiKey.DESCRIBE_POSITIONS, DescribePositionsRequest(asked), handle)
        codes = {
            ids.get(each.topic_id, "unknown"): [one.error_code for one in each.partitions] for each in response.topics
        }
        assert codes == {"orders": [], "unknown": [OF_TOPIC], "payments": [OF_TOPIC]}


async def test_a_server_describes_itself_to_whom_may_describe_the_cluster() -> None:
    async with _guarded() as guarded:
        key = InternalApiKey.DESCRIBE_SERVER
        response = await guarded.ask(key, DescribeServerRequest())
        assert response.error_code == OF_CLUSTER
        assert response.error_message == "User:ANONYMOUS may not describe the cluster"
        guarded.allow(CLUSTER_DESCRIBE)
        assert (await guarded.ask(key, DescribeServerRequest())).error_code == NONE
