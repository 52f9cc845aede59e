import pytest
import trio.testing
from running_workflow import RunningWorkflow, put, registered, running_workflow

from tailrace.cluster.specs import Shelf
from tailrace.cluster.topic_planning import NewTopic
from tailrace.controller.inspection.partition_descriptions import RESPONSE_SECONDS_MAX, PartitionDescriptions
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.server.administration import Reassignment


def _descriptions(running: RunningWorkflow) -> PartitionDescriptions:
    return PartitionDescriptions(running.workflow.local, running.spus.ask_spu)


async def messages(running: RunningWorkflow) -> dict[int, str | None]:
    (partition,) = await _descriptions(running).describe(None)
    return {each.spu_id: each.error_message for each in partition.details}


async def test_an_spu_that_does_not_answer_is_described_by_that(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2, 3))
    async with running_workflow(store) as running:
        await running.connect(1, 2, 3)
        await running.administration.create_topics([NewTopic("orders", 1, 3)])
        running.spus.silent = {2}
        await running.lose(3)
        responses = await messages(running)
        assert responses == {1: None, 2: "SPU 2 did not respond within 2 s", 3: "SPU 3 is not online"}
        assert trio.current_time() == pytest.approx(RESPONSE_SECONDS_MAX), "they are asked at the same time"


async def test_an_spu_whose_stream_is_broken_is_described_by_that() -> None:
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("orders", 1, 1)])
        running.spus.connected.clear()
        assert await messages(running) == {1: "SPU 1 is not connected"}


async def test_a_moving_partition_shows_added_and_removed_replicas() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("orders", 1, 1)])
        await running.connect(2)
        assert await running.administration.reassign([Reassignment("orders", 0, (SpuId(2),))]) == [None]
        await running.workflow.writes.wait_until(lambda: bool(_adding(running)))
        (partition,) = await _descriptions(running).describe(None)
        assert (partition.adding, partition.removing) == ([2], [1])


async def test_a_request_for_epochs_also_gets_shelves() -> None:
    store = MemoryStore()
    await put(store, *registered(1, 2))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("orders", 1, 1)])
        await running.connect(2)
        await running.shelve(Shelf(0, 10, (SpuId(2),)), shelved_from=4)
        (partition,) = await _descriptions(running).describe(None, 1)
        assert partition.shelved_from == 4
        assert [(each.base, each.end, each.stores, each.filling) for each in partition.shelves] == [(0, 10, [2], [])]
        (partition,) = await _descriptions(running).describe(None)
        assert partition.shelves == []


def _adding(running: RunningWorkflow) -> tuple[SpuId, ...]:
    (partition,) = running.workflow.local.partitions.values()
    return partition.spec.adding


async def test_all_topics_are_described_in_order_and_each_once() -> None:
    async with running_workflow() as running:
        assert await _descriptions(running).describe(None) == []
        with pytest.raises(KafkaError):
            await _descriptions(running).describe(["nowhere"])
    store = MemoryStore()
    await put(store, *registered(1))
    async with running_workflow(store) as running:
        await running.connect(1)
        await running.administration.create_topics([NewTopic("b", 2, 1), NewTopic("a", 1, 1)])
        everything = await _descriptions(running).describe(None)
        assert [(each.topic, each.partition) for each in everything] == [("a", 0), ("b", 0), ("b", 1)]
        assert len(await _descriptions(running).describe(["a", "a"])) == 1
