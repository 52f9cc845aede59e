"""Batches of a shard, and a worker without a process, for tests of `ShardLine`."""

from collections.abc import Callable, Iterable, Sequence

from tailrace.protocol.batches.compression import Compression
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.shards.fetched_batches import FetchedBatches
from tailrace.trigger.shards.shard_line import ShardLine
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output, Settled, Shard

SHARD = Shard("orders", 3)
WALL_MS = 1_000_000_000


def batch_of(
    offsets: Iterable[int],
    end: int | None = None,
    *,
    base: int | None = None,
    keys: Sequence[bytes | None] | None = None,
    compression: Compression = Compression.NONE,
    is_control: bool = False,
) -> bytes:
    """Makes a batch with records at these offsets; from `base` to `end`, if it has gaps at its borders."""
    records = [
        Record(offset, WALL_MS, b"key" if keys is None else keys[place], b"value %d" % offset, [("h", b"%d" % offset)])
        for place, offset in enumerate(offsets)
    ]
    first = records[0].offset if base is None else base
    batch = build_batch(records, base_offset=first, compression=compression, is_control=is_control)
    if end is not None:
        batch[23:27] = (end - 1 - first).to_bytes(4, "big")  # compaction keeps the last offset of a batch
        assert read_header(batch).next_offset == end
    return bytes(batch)


def config_with(**values: object) -> TriggerConfig:
    return TriggerConfig(name="t", topic="orders", group="billing", **values)  # type: ignore[arg-type]


def fetched(*batches: bytes, offset: int = 0, now: float = 0.0) -> FetchedBatches:
    found = FetchedBatches(offset, 1_000_000)
    found.add(b"".join(batches), now, WALL_MS)
    return found


def line_with(*batches: bytes, offset: int = 0, **values: object) -> ShardLine:
    line = ShardLine(SHARD, offset, config_with(**values))
    take(line, *batches)
    return line


def take(line: ShardLine, *batches: bytes, now: float = 0.0) -> None:
    records = b"".join(batches)
    end = read_header(batches[-1]).next_offset if batches else line.high_watermark
    line.take(records, max(end, line.high_watermark), now, WALL_MS)


def offsets_of(chunk: Chunk) -> list[int]:
    """Returns the offsets of the events that a worker finds in the chunk."""
    offsets = [record.offset for batch in chunk.batches for record in read_records(batch)]
    return [
        offset
        for offset in offsets
        if chunk.first <= offset < chunk.end and (chunk.offsets is None or offset in chunk.offsets)
    ]


def handled(chunk: Chunk, *outputs: Output, until: int | None = None, opened: Sequence[int] = ()) -> Outcome:
    """Makes the outcome of a worker that has handled a chunk, perhaps only until an offset."""
    until = chunk.end if until is None else until
    events = sum(offset < until for offset in offsets_of(chunk))
    return Outcome(until, events=events, outputs=outputs, handler_seconds=events / 1e5, opened=tuple(opened))


def failed(
    offset: int,
    end: int | None = None,
    *outputs: Output,
    safe_until: int | None = None,
    kind: FailureKind = FailureKind.RAISED,
    reported: Sequence[int] = (),
) -> Outcome:
    """Makes the outcome of a worker for which one event or batch has failed."""
    failure = Failure(kind, offset, offset + 1 if end is None else end, "ValueError", "no", "", "", tuple(reported))
    return Outcome(offset if safe_until is None else safe_until, outputs=outputs, failure=failure)


def finish(line: ShardLine, chunk: Chunk, outcome: Outcome | None = None, now: float = 0.0, sent: bool = True) -> None:
    """Brings an outcome to the line, by default that all is handled. Acknowledges what the line sends."""
    effects = line.on_outcome(chunk, handled(chunk) if outcome is None else outcome, now, WALL_MS, 0.0)
    if sent and effects.sending is not None:
        line.on_sent(effects.sending.ticket)


def acknowledge(line: ShardLine, *offsets: int) -> None:
    for offset in offsets:
        assert line.on_settled(Settled(SHARD, offset, is_acknowledged=True), 0.0).sending is None


def next_chunk(line: ShardLine, now: float = 0.0) -> Chunk:
    chunk = line.next_chunk(now)
    assert chunk is not None
    return chunk


def handle_all(line: ShardLine, act: Callable[[Chunk], Outcome] = handled, now: float = 0.0) -> list[list[int]]:
    """Handles everything that is due now. Returns the offsets of each chunk."""
    chunks = []
    while (chunk := line.next_chunk(now)) is not None:
        chunks.append(offsets_of(chunk))
        finish(line, chunk, act(chunk), now)
    return chunks


def handle_all_but(line: ShardLine, bad: int) -> tuple[list[list[int]], list[int]]:
    """Handles everything, and fails each batch that has the bad offset. Returns the offsets of each chunk, and those of
    the dead letters."""
    chunks: list[list[int]] = []
    letters: list[int] = []
    while (chunk := line.next_chunk(0.0)) is not None:
        offsets = offsets_of(chunk)
        chunks.append(offsets)
        outcome = failed(offsets[0], offsets[-1] + 1) if bad in offsets else handled(chunk)
        effects = line.on_outcome(chunk, outcome, 0.0, WALL_MS, 0.0)
        if effects.sending is not None:
            letters += [letter.offset for letter in effects.sending.dead_letters]
            line.on_sent(effects.sending.ticket)
    return chunks, letters
