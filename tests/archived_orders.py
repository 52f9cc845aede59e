"""Small archives for tests, whose records have the offset as their value."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from tailrace.pipeline.archive.chunks.chunk_writing import ChunkTarget, ChunkWriter
from tailrace.pipeline.archive.manifest.archive_manifest import Archive, ArchivedPartition, Chunk
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive, new_token
from tailrace.pipeline.segments.arrow_rows import Source
from tailrace.pipeline.segments.log_pieces import LogBatch, piece_of
from tailrace.pipeline.segments.segment_columns import ENTRY_TYPES, EVENT
from tailrace.pipeline.segments.segment_reading import ReadBatch
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.runtime.chance import RandomChance

TOPIC_ID = str(UUID(int=7))
DAY_MS = 86_400_000
BEGIN_MS = 1_767_225_600_000
"""2026-01-01."""


def record(offset: int) -> Record:
    """A record; eight of them have the same date, and every fifth has the date before."""
    time_ms = BEGIN_MS + (offset // 8 - (offset % 5 == 4)) * DAY_MS + offset
    return Record(offset, time_ms, b"k%d" % offset, b"%d" % offset, [("n", b"%d" % offset), ("none", None)])


def archive_of(directory: Path, chunks: Mapping[int, Sequence[tuple[int, int]]], topic: str = "orders") -> str:
    """Makes an archive with chunks of these ranges of offsets in each partition."""
    create_archive(str(directory), Archive(str(UUID(int=1)), "files"))
    folder, chance = ArchiveFolder(str(directory)), RandomChance()
    for partition, ranges in chunks.items():
        for place, (start, end) in enumerate(ranges):
            added = [ArchivedPartition(topic, TOPIC_ID, partition, start)] if place == 0 else []
            chunk = _chunk(directory, topic, partition, start, end)
            assert folder.commit(folder.load(), new_token(chance), 0, partitions_added=added, chunks_added=[chunk])
    return str(directory)


def _chunk(directory: Path, topic: str, partition: int, start: int, end: int) -> Chunk:
    writer = ChunkWriter(ChunkTarget(str(directory), topic, TOPIC_ID, partition), RandomChance())
    content = bytes(build_batch([record(each) for each in range(start, end)], base_offset=start))
    batch = ReadBatch(0, read_header(content), ENTRY_TYPES.index(EVENT), crc_matches=True, chunk=content)
    writer.add(piece_of(Source(topic, TOPIC_ID, partition, "", 0), [LogBatch(batch)], start, end))
    (chunk,) = writer.finish().chunks
    return chunk
