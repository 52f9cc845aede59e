"""Expectations of the size of chunks."""

from shard_workers import batch_of, fetched

from tailrace.trigger.shards.chunk_size import CHUNK_BYTES_MAX, CHUNK_RECORDS_MAX, ChunkSize


def test_a_chunk_has_whole_batches_until_the_worker_is_busy_for_its_time() -> None:
    size = ChunkSize(0.05)
    batches = fetched(*[batch_of(range(base, base + 10)) for base in range(0, 100, 10)]).from_offset(0)
    size.learn(10, 0.02)
    assert 25 < size.records < 50
    assert size.end(batches, 0, 100) == 40
    size.learn(1, 3.0)
    assert size.records == 1
    assert size.end(batches, 0, 100) == 10


def test_a_chunk_ends_before_the_end() -> None:
    batches = fetched(batch_of(range(10)), batch_of(range(10, 20))).from_offset(0)
    assert ChunkSize(0.05).end(batches, 0, 5) == 5
    assert ChunkSize(0.05).end(batches, 0, 10) == 10


def test_a_chunk_is_bounded_in_bytes_but_has_one_batch() -> None:
    batches = fetched(batch_of(range(10)), batch_of(range(10, 20))).from_offset(0)
    for batch in batches:
        batch.data = bytes(CHUNK_BYTES_MAX)
    assert ChunkSize(0.05).end(batches, 0, 20) == 10


def test_a_fast_function_gets_large_chunks_after_a_slow_event() -> None:
    size = ChunkSize(0.05)
    size.learn(1, 1.0)
    for _ in range(40):
        size.learn(1000, 1e-6)
    size.learn(0, 0.0)
    assert size.records == CHUNK_RECORDS_MAX
