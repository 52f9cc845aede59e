"""Expectations of key lanes: records with different keys in parallel, and those with the same key in order."""

import pytest
from shard_workers import (
    SHARD,
    WALL_MS,
    acknowledge,
    batch_of,
    failed,
    finish,
    handle_all,
    handle_all_but,
    handled,
    line_with,
    next_chunk,
    offsets_of,
    take,
)

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.records import read_records
from tailrace.trigger.config.trigger_config import Acknowledgement, OnExhausted, Order, Retry
from tailrace.trigger.shards.key_lanes import LOADED_RECORDS_MAX
from tailrace.trigger.shards.line_effects import LogTruncated
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Chunk, FailureKind, Settled


def _line(keys: str, *more: bytes, **values: object) -> ShardLine:
    """Makes a line with one record for each letter, which is its key; a dot stands for no key."""
    values = {"max_workers": 2, **values}
    return line_with(_batch(keys), *more, order=Order.KEY, **values)


def _batch(keys: str, base: int = 0, compression: Compression = Compression.NONE) -> bytes:
    encoded = [None if key == "." else key.encode() for key in keys]
    return batch_of(range(base, base + len(keys)), keys=encoded, compression=compression)


def _chunks(line: ShardLine, now: float = 0.0) -> list[Chunk]:
    chunks = []
    while (chunk := line.next_chunk(now)) is not None:
        chunks.append(chunk)
    return chunks


def test_records_with_different_keys_are_handed_out_in_parallel() -> None:
    line = _line("abcab")
    chunks = _chunks(line)
    assert [offsets_of(chunk) for chunk in chunks] == [[0, 1], [2]]
    finish(line, chunks[0])
    assert offsets_of(next_chunk(line)) == [3]
    assert line.mark == 2


def test_a_worker_gets_only_the_records_of_its_chunk_as_they_were() -> None:
    for compression in (Compression.NONE, Compression.ZSTD):
        batch = _batch("aba", compression=compression)
        line = line_with(batch, order=Order.KEY, max_workers=1)
        first, second = read_records(batch)[0::2], read_records(batch)[1:2]
        chunk = next_chunk(line)
        finish(line, chunk)
        assert [record for data in chunk.batches for record in read_records(data)] == [*first[:1], *second]
        chunk = next_chunk(line)
        assert read_records(chunk.batches[0]) == first[1:]


def test_a_failed_record_holds_up_only_its_key() -> None:
    line = _line("aab", retry=Retry(backoff=(5.0, 9.0)))
    first, second = _chunks(line)
    finish(line, first, failed(0))
    finish(line, second)
    assert line.next_chunk(0.0) is None
    take(line, _batch("cb", 3))
    assert [offset for offsets in handle_all(line) for offset in offsets] == [3, 4]
    assert line.mark == 0
    assert line.next_time == 5.0
    chunk = next_chunk(line, 5.0)
    assert (offsets_of(chunk), chunk.attempt) == ([0], 2)
    finish(line, chunk, now=5.0)
    assert handle_all(line, now=5.0) == [[1]]
    assert line.mark == 5


def test_a_record_that_is_given_up_lets_its_lane_go_on() -> None:
    line = _line("aa", retry=Retry(attempts=1))
    finish(line, next_chunk(line), failed(0))
    assert handle_all(line) == [[1]]
    assert line.mark == 2


def test_a_stopped_shard_keeps_the_mark_before_the_record() -> None:
    line = _line("ab", retry=Retry(attempts=1), on_exhausted=OnExhausted.STOP)
    first, second = _chunks(line)
    finish(line, first, failed(0))
    finish(line, second)
    assert (line.mark, line.next_chunk(1e9)) == (0, None)


def test_records_that_a_worker_hands_back_come_again_in_order() -> None:
    line = _line("aaaaaaaaa")
    chunk = next_chunk(line)
    assert offsets_of(chunk) == [0, 1, 2]
    finish(line, chunk, failed(2, safe_until=1, kind=FailureKind.WORKER_ENDED))
    assert handle_all(line, now=0.0) == [[1]]
    assert offsets_of(next_chunk(line, line.next_time)) == [2]


def test_records_without_a_key_wait_for_none() -> None:
    line = _line("...", retry=Retry(backoff=(5.0, 9.0)))
    finish(line, next_chunk(line), failed(0))
    assert handle_all(line) == [[1], [2]]


def test_a_broken_worker_can_blame_only_records_of_its_chunk() -> None:
    for offset in (-5, 1, 99):
        line = _line("aba", max_workers=1, retry=Retry(attempts=1))
        finish(line, next_chunk(line), failed(offset, safe_until=-7))
        handle_all(line)
        assert line.mark == 3


def test_a_batch_of_events_has_different_keys_and_waits_until_it_is_full() -> None:
    line = _line("ab", batch_size=3, batch_seconds=5.0)
    assert line.next_chunk(4.0) is None
    assert line.next_time == 5.0
    take(line, _batch("ac", 2), now=4.0)
    chunk = next_chunk(line, 4.0)
    assert (offsets_of(chunk), chunk.batch_size) == ([0, 1, 2], 3)
    assert line.next_chunk(4.0) is None
    assert offsets_of(next_chunk(line, line.next_time)) == [3]


def test_only_the_events_that_a_batch_reports_are_handled_again() -> None:
    line = _line("abc", batch_size=3)
    finish(line, next_chunk(line), failed(0, 3, reported=[1]))
    assert line.mark == 1
    chunk = next_chunk(line, line.next_time)
    assert (offsets_of(chunk), chunk.attempt) == ([1], 2)


def test_a_failed_batch_is_split_until_one_event_fails_alone() -> None:
    line = _line("abcdabcd", batch_size=8, retry=Retry(attempts=1, split_batch=True), max_workers=1)
    seen, letters = handle_all_but(line, 5)
    assert seen == [list(range(8)), [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5], [6, 7]]
    assert letters == [5]
    assert line.mark == 8


def test_a_batch_that_cannot_be_decoded_is_handed_out_whole() -> None:
    broken = bytearray(_batch("abc", 2))
    broken[62:] = b"\xff" * len(broken[62:])
    line = _line("ab", bytes(broken), _batch("a", 5), max_workers=1)
    finish(line, next_chunk(line))
    chunk = next_chunk(line)
    assert (chunk.first, chunk.end, list(chunk.batches)) == (2, 5, [bytes(broken)])
    effects = line.on_outcome(chunk, failed(2, 5, kind=FailureKind.UNREADABLE), 0.0, WALL_MS, 0.0)
    assert effects.sending is not None
    assert [(letter.offset, letter.batch) for letter in effects.sending.dead_letters] == [(2, bytes(broken))]
    line.on_sent(effects.sending.ticket)
    handle_all(line)
    assert line.mark == 6


def test_the_mark_waits_for_open_events_but_their_lanes_do_not() -> None:
    line = _line("aa", acknowledgement=Acknowledgement.EXPLICIT, max_workers=1)
    chunk = next_chunk(line)
    finish(line, chunk, handled(chunk, opened=[0]))
    assert handle_all(line) == [[1]]
    assert line.mark == 0
    line.on_settled(Settled(SHARD, 0, is_acknowledged=False), 0.0)
    chunk = next_chunk(line)
    assert (offsets_of(chunk), chunk.attempt) == ([0], 1)
    finish(line, chunk, handled(chunk, opened=[0]))
    acknowledge(line, 0)
    assert line.mark == 2


def test_records_beyond_the_first_that_is_not_handled_are_bounded() -> None:
    line = _line("a", retry=Retry(backoff=(5.0, 9.0)))
    finish(line, next_chunk(line), failed(0))
    while line.wants_bytes and line.fetch_offset < LOADED_RECORDS_MAX + 500:
        take(line, _batch("bcdefghijk" * 100, line.fetch_offset))
    assert sum(map(len, handle_all(line))) == LOADED_RECORDS_MAX - 1
    assert sum(map(len, handle_all(line, now=5.0))) == line.fetch_offset - LOADED_RECORDS_MAX + 1
    assert line.mark == line.fetch_offset


def test_a_truncated_log_takes_records_out_of_lanes_and_out_of_hands() -> None:
    line = _line("ab", _batch("ab", 2))
    chunks = _chunks(line)
    assert [offsets_of(chunk) for chunk in chunks] == [[0, 1]]
    assert line.on_log_end(0).facts == (LogTruncated(0, 4),)
    take(line, _batch("ac"))
    assert handle_all(line) == [[1]], "the key of a running record waits for it"
    finish(line, chunks[0], failed(0))
    assert handle_all(line) == [[0]]
    assert line.mark == 2


def test_a_line_begins_in_the_middle_of_a_batch() -> None:
    line = line_with(_batch("abc"), offset=1, order=Order.KEY)
    assert handle_all(line) == [[1], [2]]


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_count_with_their_decompressed_size(compression: Compression) -> None:
    batch = _batch("ab" * 200, compression=compression)
    line = line_with(batch, order=Order.KEY)
    before = line.buffered_bytes
    next_chunk(line)
    assert (line.buffered_bytes > before) == (compression is not Compression.NONE)
    assert line.buffered_bytes > len(batch) * 0.99
