"""Ids from blocks: none twice, and no more blocks than needed."""

import trio

from tailrace.broker.producer_ids import ProducerIds


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
