"""ExplainGroup, over the wire."""

from grouped_spu import REBALANCE_MS, SESSION_MS, grouped_spu

from tailrace.cluster.coordinators import partition_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.explain_group import ExplainGroupRequest
from tailrace.protocol.internal_apis import InternalApiKey


async def test_a_group_is_explained_by_its_coordinator(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.member("g", "worker-1", "orders", [0, 1])
        response = await spu.client.request(InternalApiKey.EXPLAIN_GROUP, 0, ExplainGroupRequest("g"))
        assert (response.error_code, response.group_type, response.state) == (0, "classic", "Stable")
        assert (response.partition, response.epoch) == (partition_of("g", 3), 0)
        assert response.now_ms == response.loaded_ms == spu.clock.now_ms()
        assert (response.session_timeout_ms, response.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
        assert [each.cause for each in response.rebalances] == ["worker-1 joined"]


async def test_a_group_that_does_not_exist(autojump_clock: object) -> None:
    async with grouped_spu() as spu:
        response = await spu.client.request(InternalApiKey.EXPLAIN_GROUP, 0, ExplainGroupRequest("g"))
        assert (response.error_code, response.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            "there is no group g",
        )
