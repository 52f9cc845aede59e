"""Chooses which neighbouring chunks of an archive become one, so that it has few files of a good size."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from tailrace.pipeline.archive.manifest.archive_manifest import Chunk

TARGET_BYTES_DEFAULT = 128 * 2**20
RECORDS_MAX = 8_000_000
"""How many records a merged chunk may have. Checking a chunk takes 16 bytes of memory for each of its records."""


class Merge(Struct, frozen=True):
    """Neighbouring chunks of a partition that become one."""

    chunks: tuple[Chunk, ...]

    @property
    def bytes(self) -> int:
        return sum(map(chunk_bytes, self.chunks))


def chunk_bytes(chunk: Chunk) -> int:
    """Returns the size of the files of a chunk."""
    return sum(file.bytes for file in chunk.files)


def plan_merges(chunks: Iterable[Chunk], target_bytes: int) -> list[Merge]:
    """Returns what to merge: neighbours that are small, until together they are as large as the target.

    A chunk of half the target stays as it is. So each record is copied only a few times, however often the archive is
    compacted, and a second compaction right after the first one finds nothing to do.
    """
    ordered = sorted(chunks, key=lambda each: (each.topic, each.topic_id, each.partition, each.start))
    found: list[Merge] = []
    for _, of_partition in groupby(ordered, key=lambda each: each.key):
        found += _merges_of_partition(list(of_partition), target_bytes)
    return found


def _merges_of_partition(chunks: Sequence[Chunk], target_bytes: int) -> list[Merge]:
    found: list[Merge] = []
    group: list[Chunk] = []

    def close() -> None:
        if len(group) > 1:
            found.append(Merge(tuple(group)))
        group.clear()

    for chunk in chunks:
        if not _is_small(chunk, target_bytes):
            close()
            continue
        size = sum(map(chunk_bytes, group)) + chunk_bytes(chunk)
        records = sum(each.records for each in group) + chunk.records
        is_neighbour = not group or group[-1].end == chunk.start
        if size > target_bytes or records > RECORDS_MAX or not is_neighbour:
            close()
        group.append(chunk)
    close()
    return found


def _is_small(chunk: Chunk, target_bytes: int) -> bool:
    return 2 * chunk_bytes(chunk) < target_bytes and 2 * chunk.records < RECORDS_MAX
