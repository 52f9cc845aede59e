"""Documents of archives for tests."""

from collections.abc import Sequence

from tailrace.pipeline.archive.manifest.archive_manifest import Archive, ArchivedPartition, Chunk, DataFile
from tailrace.pipeline.segments.log_gaps import Gap

TOPIC_ID = "7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b"
OTHER_ID = "0d8f9c1b-3f5e-4a7e-9a51-2f6a2f1d7c55"
ARCHIVE = Archive("2c0f5d31-90f6-4f5a-8a0b-9d1f53d2c8aa", "files")


def archived_partition(partition: int = 0, start: int = 0, topic_id: str = TOPIC_ID) -> ArchivedPartition:
    return ArchivedPartition("orders", topic_id, partition, start)


def chunk(
    start: int,
    end: int,
    partition: int = 0,
    *,
    gaps: Sequence[Gap] = (),
    token: str = "5f3a9c01",
    topic_id: str = TOPIC_ID,
) -> Chunk:
    """Returns a chunk with one file."""
    records = end - start - sum(gap.last + 1 - gap.first for gap in gaps)
    rollup = start * 2**40 + end
    name = f"{topic_id}-p{partition:05d}-{start:020d}-{end - 1:020d}-e0-{token}.parquet"
    file = DataFile(f"data/orders/date=2026-11-28/{name}", "2026-11-28", start, end - 1, records, 100 * records, rollup)
    return Chunk(
        "orders",
        topic_id,
        partition,
        start,
        end,
        token,
        records,
        rollup if records else 0,
        (file,) if records else (),
        tuple(gaps),
        0,
        0,
    )
