"""Expectations of the order in which pieces of a shard are handed out."""

from shard_workers import SHARD, batch_of, config_with, failed, fetched, handled, offsets_of

from tailrace.trigger.shards.in_order import InOrder
from tailrace.trigger.shards.pieces import NEVER
from tailrace.trigger.work import Chunk


def _order(*batches: bytes, **values: object) -> InOrder:
    return InOrder(SHARD, 0, config_with(**values), fetched(*batches), 0.05)


def _chunk(order: InOrder, now: float = 0.0, end: int = 1000) -> Chunk:
    chunk = order.next_chunk(now, end)
    assert chunk is not None
    return chunk


def test_new_records_before_the_end_are_handed_out() -> None:
    order = _order(batch_of(range(9)))
    chunk = _chunk(order, end=4)
    assert offsets_of(chunk) == [0, 1, 2, 3]
    assert (order.lowest, order.position, order.records_in_hand) == (0, 4, 4)
    order.take_back(chunk, handled(chunk))
    assert order.next_chunk(0.0, 4) is None
    assert order.needs_records
    assert order.next_time == NEVER


def test_a_chunk_has_only_the_batches_that_it_needs() -> None:
    batches = [batch_of(range(base, base + 100)) for base in (0, 100, 200)]
    order = _order(*batches)
    chunk = _chunk(order)
    assert list(chunk.batches) == batches[:1]
    order.take_back(chunk, handled(chunk, until=50))
    assert list(_chunk(order).batches) == batches


def test_pieces_come_in_the_order_of_their_offsets() -> None:
    order = _order(batch_of(range(9)))
    chunk = _chunk(order)
    for offset in (6, 2):
        remains = order.take_back(chunk, failed(offset, safe_until=min(offset, 2)))
        order.retry(remains.failed[0], due=1.0)
        chunk = _chunk(order) if offset == 6 else chunk
    assert order.lowest == 2
    assert order.next_chunk(0.0, 9) is None
    handed_out = []
    while (found := order.next_chunk(1.0, 9)) is not None:
        handed_out.append((offsets_of(found), found.attempt))
        order.take_back(found, handled(found))
    assert handed_out == [([2], 2), ([3, 4, 5], 1), ([6, 7, 8], 2)]


def test_an_event_that_was_not_begun_again_keeps_its_attempts() -> None:
    order = _order(batch_of(range(3)))
    chunk = _chunk(order)
    order.retry(order.take_back(chunk, failed(0)).failed[0], due=0.0)
    chunk = _chunk(order)
    order.take_back(chunk, handled(chunk, until=0))
    assert _chunk(order).attempt == 2
