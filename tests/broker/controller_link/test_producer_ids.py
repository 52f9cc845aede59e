"""Tests that ids come from blocks without duplicates, and that no unneeded blocks are allocated."""

from functools import partial

import pytest
import trio
import trio.testing

from tailrace.broker.controller_link.producer_ids import RETRY_SECONDS, WAIT_SECONDS_MAX, ProducerIds, allocate_from
from tailrace.broker.controller_link.sc_connection import ScUnreachableError
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class Blocks:
    def __init__(self, size: int) -> None:
        self.size = size
        self.given = 0

    async def allocate(self) -> range:
        await trio.lowlevel.checkpoint()
        self.given += 1
        return range((self.given - 1) * self.size, self.given * self.size)


async def test_producers_that_come_at_once_get_different_ids() -> None:
    blocks = Blocks(4)
    producer_ids = ProducerIds(blocks.allocate)
    got: list[int] = []

    async def take() -> None:
        got.append(await producer_ids.next())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(take)
    assert sorted(got) == list(range(10))
    assert blocks.given == 3


async def test_a_controller_that_is_away_is_waited_for_once_and_not_by_one_after_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def never() -> range:
        await trio.sleep_forever()
        raise AssertionError

    producer_ids = ProducerIds(never)
    refused: list[ErrorCode] = []

    async def take() -> None:
        with pytest.raises(KafkaError, match="the Streaming Controller cannot be reached") as error:
            await producer_ids.next()
        refused.append(error.value.code)

    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(take)
    assert refused == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    assert trio.current_time() - started == pytest.approx(WAIT_SECONDS_MAX)


async def test_a_connection_that_breaks_is_no_reason_to_wait(autojump_clock: object) -> None:
    async def broken() -> range:
        raise ScUnreachableError("the connection broke")

    with trio.fail_after(0.1), pytest.raises(KafkaError) as refused:
        await ProducerIds(broken).next()
    assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_block_is_what_the_controller_gives() -> None:
    async def ask(message: object) -> AllocateProducerIdsResponse:
        assert message == AllocateProducerIdsRequest()
        return AllocateProducerIdsResponse(first_id=3000, count=1000)

    assert await allocate_from(ask) == range(3000, 4000)


async def test_a_controller_that_has_no_block_now_may_have_one_later() -> None:
    async def ask(message: object) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message="another one acts")

    with pytest.raises(KafkaError, match="another one acts") as refused:
        await ProducerIds(partial(allocate_from, ask)).next()
    assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_with_a_block_in_reserve_new_producers_begin_while_the_controller_is_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    blocks = Blocks(2)
    is_away = False

    async def allocate() -> range:
        if is_away:
            raise ScUnreachableError("gone")
        return await blocks.allocate()

    producer_ids = ProducerIds(allocate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(producer_ids.keep_reserve)
        await trio.testing.wait_all_tasks_blocked()
        assert await producer_ids.next() == 0
        await trio.testing.wait_all_tasks_blocked()
        is_away = True
        assert [await producer_ids.next() for _ in range(3)] == [1, 2, 3]
        with pytest.raises(KafkaError):
            await producer_ids.next()
        is_away = False
        await trio.sleep(RETRY_SECONDS)
        assert await producer_ids.next() == 4
        await trio.testing.wait_all_tasks_blocked()
        assert blocks.given == 4
        nursery.cancel_scope.cancel()
