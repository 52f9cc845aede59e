import json

import pytest
import trio.testing
from hosts import request_of
from quota_samples import quota, server_quotas
from running_workflow import put, registered, running_workflow

from tailrace.controller.handlers.create_object import handle
from tailrace.controller.handlers.delete_object import handle as delete
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.create_object import CreateObjectRequest
from tailrace.protocol.internal.delete_object import DeleteObjectRequest
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.security.identity.principal import Principal

CONTEXT = request_of(ApiKey.METADATA)


def request(kind: str, timeout_ms: int = 0, **fields: object) -> CreateObjectRequest:
    return CreateObjectRequest(kind, json.dumps(fields), timeout_ms)


async def test_a_topic_may_wait_for_its_spus() -> None:
    async with running_workflow() as running:
        created = await handle(
            running.host, CONTEXT, request("topic", name="orders", partitions=6, replicationFactor=3)
        )
        assert created.error_code == ErrorCode.NONE
        status = json.loads(created.document)["status"]
        assert status["resolution"] == "InsufficientResources"
        assert status["reason"]


async def test_a_timeout_states_what_was_awaited(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow() as running:
        waited = await handle(running.host, CONTEXT, request("topic", 5000, name="orders"))
        assert waited.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "SPU" in (waited.error_message or "")
        assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_a_fault_of_a_document_names_the_field() -> None:
    async with running_workflow() as running:
        refused = await handle(running.host, CONTEXT, request("topic", name="orders", partitions="many"))
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert (refused.error_message or "").startswith("partitions:")
        text = await handle(running.host, CONTEXT, CreateObjectRequest("topic", "partitions: 6", 0))
        assert text.error_code == ErrorCode.INVALID_REQUEST


async def test_a_topic_that_is_waited_for_is_served() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        created = await handle(running.host, CONTEXT, request("topic", 5000, name="orders", partitions=2))
        assert json.loads(created.document)["status"]["resolution"] == "Provisioned"
        assert "orders" in running.workflow.cluster.topics


async def test_the_partitions_of_a_topic_count_against_the_quota_of_the_client() -> None:
    async with running_workflow() as running:
        quotas = server_quotas(quota({"controller_mutation_rate": 1.0}, user="alice"))
        context = request_of(ApiKey.METADATA)
        context.mutations = quotas.mutations(Principal("User", "alice"), None, InternalApiKey.CREATE_OBJECT, 0)
        await handle(running.host, CONTEXT, request("topic", name="there"))
        wrong = await handle(running.host, context, request("topic", name="there", partitions=100))
        assert wrong.error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "which does not count"
        created = await handle(running.host, context, request("topic", name="orders", partitions=100))
        assert created.error_code == ErrorCode.NONE
        refused = await handle(running.host, context, request("topic", name="bills"))
        assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "may change 1 partitions a second" in (refused.error_message or "")
        deleted = await delete(running.host, context, DeleteObjectRequest("topic", "orders"))
        assert deleted.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert "orders" in running.workflow.local.topics
