from collections.abc import Sequence

import pytest
import trio
import trio.testing
from running_workflow import put, running_workflow

from tailrace.controller.administration.planned_changes import (
    ChangeWriter,
    Deadlines,
    Planned,
    Plans,
    plan_each,
    result_or_raise,
)
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import ConfigOverrides, ProducerIdBlock
from tailrace.controller.state.actions import Put
from tailrace.protocol.error_codes import ErrorCode, KafkaError


async def test_a_change_that_lost_to_another_is_planned_again() -> None:
    store = MemoryStore()
    async with running_workflow(store) as running:
        planned_from: list[int] = []

        def plan(amounts: Sequence[int]) -> Plans[int]:
            block = running.workflow.local.producer_ids or ProducerIdBlock(0)
            planned_from.append(block.next_id)
            after = ProducerIdBlock(block.next_id + amounts[0], block.version)
            return [Planned(after.next_id, (Put(after),))]

        await put(store, ProducerIdBlock(500))
        assert await ChangeWriter(running.workflow.writes).write([10], plan, Deadlines(1000)) == [510]
        assert planned_from == [0, 500]


async def test_each_item_has_its_outcome_whatever_becomes_of_the_others() -> None:
    async with running_workflow() as running:

        def plan(name: str) -> Planned[str]:
            if name == "bad":
                raise KafkaError(ErrorCode.INVALID_REQUEST, "no")
            return Planned(name, (Put(ConfigOverrides(name, {})),))

        outcomes = await ChangeWriter(running.workflow.writes).write(
            ["1", "bad", "2"], plan_each(plan), Deadlines(1000)
        )
        assert [each.code if isinstance(each, KafkaError) else each for each in outcomes] == [
            "1",
            ErrorCode.INVALID_REQUEST,
            "2",
        ]


async def test_an_oversized_change_does_not_stop_others() -> None:
    async with running_workflow() as running:

        def plan(size: int) -> Planned[int]:
            overrides = ConfigOverrides(str(size), {"a": "x" * size})
            return Planned(size, (Put(ProducerIdBlock(size)), Put(overrides)) if size > 1 else (Put(overrides),))

        outcomes = await ChangeWriter(running.workflow.writes).write(
            [0, 1024 * 1024, 1], plan_each(plan), Deadlines(1000)
        )
        assert [each.code if isinstance(each, KafkaError) else each for each in outcomes] == [
            0,
            ErrorCode.POLICY_VIOLATION,
            1,
        ]
        assert running.workflow.local.config_overrides.keys() == {"0", "1"}
        assert running.workflow.local.producer_ids is None


async def test_changes_are_planned_one_after_the_other(nursery: trio.Nursery) -> None:
    async with running_workflow() as running:
        changes = ChangeWriter(running.workflow.writes)
        blocks: list[int | KafkaError] = []

        def plan(_: None) -> Planned[int]:
            block = running.workflow.local.producer_ids or ProducerIdBlock(0)
            return Planned(block.next_id, (Put(ProducerIdBlock(block.next_id + 1, block.version)),))

        async def take() -> None:
            blocks.extend(await changes.write([None], plan_each(plan), Deadlines(1000)))

        async with trio.open_nursery() as taking:
            for _ in range(10):
                taking.start_soon(take)
        assert blocks == list(range(10))
        assert running.workflow.counts.updaters.lost_writes == 0


async def test_the_effect_is_waited_for_until_the_timeout(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow() as running:
        outcomes = await ChangeWriter(running.workflow.writes).wait_for(
            [None, lambda: True, lambda: False], ["a", "b", "c"], Deadlines(3000)
        )
        assert outcomes[:2] == ["a", "b"]
        assert isinstance(outcomes[2], KafkaError)
        assert outcomes[2].code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() == pytest.approx(3)


async def test_a_client_that_does_not_wait_still_has_its_change_written(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow() as running:
        plan = plan_each(lambda _: Planned("done", (Put(ConfigOverrides("", {})),)))
        assert await ChangeWriter(running.workflow.writes).write([None], plan, Deadlines(0)) == ["done"]


async def test_the_wait_of_a_request_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    async with running_workflow() as running:
        await ChangeWriter(running.workflow.writes).wait_for([lambda: False], ["a"], Deadlines(2**31 - 1))
        assert trio.current_time() == pytest.approx(120)


def test_an_outcome_that_is_an_error_can_be_raised() -> None:
    assert result_or_raise("fine") == "fine"
    with pytest.raises(KafkaError):
        result_or_raise(KafkaError(ErrorCode.INVALID_REQUEST, "no"))
