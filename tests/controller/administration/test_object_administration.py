import json

import pytest
import trio
import trio.testing
from running_workflow import put, registered, running_workflow

from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import Spu, SpuGroup, SpuGroupResolution, SpuResolution
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId


async def test_a_custom_spu_is_registered_and_waits_to_be_deployed() -> None:
    async with running_workflow() as running:
        made = await running.objects.create("spu", '{"spuId": 100, "rack": "Zone1"}', 0)
        assert isinstance(made, Spu)
        assert (made.spec.rack, made.status.resolution) == ("Zone1", SpuResolution.INIT)
        await running.connect(100)
        ((_, found),) = running.objects.list("spu", ["100"])
        assert isinstance(found, Spu)
        assert found.is_online


async def test_the_registration_of_an_spu_can_wait_until_it_is_online(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow() as running, trio.open_nursery() as nursery:

        async def deploy() -> None:
            await trio.sleep(1)
            await running.connect(100)

        nursery.start_soon(deploy)
        made = await running.objects.create("spu", '{"spuId": 100}', 5000)
        assert isinstance(made, Spu)
        assert made.is_online
        assert trio.current_time() == pytest.approx(1, abs=0.1)


async def test_a_group_is_reserved_or_invalid_with_a_reason() -> None:
    store = MemoryStore()
    await put(store, *registered(12))
    async with running_workflow(store) as running:
        good = await running.objects.create("spu-group", '{"name": "good", "replicas": 2, "minId": 20}', 0)
        assert isinstance(good, SpuGroup)
        assert good.status.resolution is SpuGroupResolution.RESERVED
        bad = await running.objects.create("spu-group", '{"name": "bad", "replicas": 2, "minId": 11}', 0)
        assert isinstance(bad, SpuGroup)
        assert bad.status.resolution is SpuGroupResolution.INVALID
        assert "12" in bad.status.reason


async def test_a_group_is_scaled_live(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow() as running:
        local = running.workflow.local
        await running.objects.create("spu-group", '{"name": "main", "replicas": 2, "minId": 11}', 0)
        await running.workflow.writes.wait_until(lambda: sorted(local.spus) == [11, 12])
        document = json.dumps({"name": "main", "replicas": 1, "minId": 11})
        await running.objects.update("spu-group", document)
        await running.workflow.writes.wait_until(lambda: sorted(local.spus) == [11])
        await running.objects.delete("spu-group", "main", force=False)
        await running.workflow.writes.wait_until(lambda: not local.spus)


async def test_a_timeout_for_a_group_states_the_reason(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running_workflow() as running:
        with pytest.raises(KafkaError) as late:
            await running.objects.create("spu-group", '{"name": "main", "replicas": 2}', 3000)
        assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
        await running.connect(0, 1)
        assert running.workflow.local.spus[SpuId(1)].is_online


async def test_a_name_is_taken_by_one() -> None:
    async with running_workflow() as running:
        await running.objects.create("spu", '{"spuId": 1}', 0)
        for _ in range(2):
            with pytest.raises(KafkaError) as taken:
                await running.objects.create("spu", '{"spuId": 1}', 0)
            assert taken.value.code is ErrorCode.DUPLICATE_RESOURCE


async def test_a_deleted_topic_can_be_deleted_for_good() -> None:
    async with running_workflow() as running:
        await running.objects.create("topic", '{"name": "orders"}', 0)
        await running.objects.delete("topic", "orders", force=False)
        await running.objects.delete("deleted-topic", "orders", force=False)
        with pytest.raises(KafkaError):
            await running.objects.undelete("orders")
