"""Writes archives with Parquet files for tests, without Spark and brokers."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from archive_samples import ARCHIVE, TOPIC_ID

from tailrace.pipeline.archive.manifest.archive_layout import data_path
from tailrace.pipeline.archive.manifest.archive_manifest import ArchivedPartition, Chunk, DataFile
from tailrace.pipeline.archive.manifest.record_rollup import batch_rollup
from tailrace.pipeline.archive.manifest.rollup_sums import add
from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder, create_archive
from tailrace.pipeline.segments.log_gaps import Gap

DATE, NEXT_DATE = "2026-11-28", "2026-11-29"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def archived_rows(offsets: Iterable[int], *, date: str = DATE, partition: int = 0) -> Any:
    """Returns rows of a file, whose values name their offsets."""
    offsets = list(offsets)
    count = len(offsets)
    time = datetime.fromisoformat(date).replace(hour=12, tzinfo=UTC)
    return pa.table(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array([b"value %d" % each for each in offsets], pa.binary()),
            "topic": pa.array(["orders"] * count),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([time] * count, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * count, pa.int32()),
            "headers": pa.array([None] * count, _HEADERS),
            "epoch": pa.array([0] * count, pa.int32()),
            "entryType": pa.array(["event"] * count),
            "producerId": pa.array([-1] * count, pa.int64()),
            "producerEpoch": pa.array([-1] * count, pa.int16()),
            "sequence": pa.array([-1] * count, pa.int32()),
            "batchCrc": pa.array([0] * count, pa.int64()),
        }
    )


def write_chunk(root: Path, start: int, end: int, rows: Mapping[str, Any], *, token: str = "5f3a9c01") -> Chunk:
    """Writes the files of a chunk of `orders`, with these rows for each date; other offsets are a gap."""
    files = []
    offsets: set[int] = set()
    for date, table in rows.items():
        of_file = table["offset"].to_pylist()
        name = f"{TOPIC_ID}-p00000-{min(of_file):020d}-{max(of_file):020d}-e0-{token}.parquet"
        path = root / data_path("orders", date, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        content = path.read_bytes()
        files.append(
            DataFile(
                str(path.relative_to(root)), date, min(of_file), max(of_file), len(table), len(content),
                batch_rollup(table), hashlib.sha256(content).hexdigest(),
            )
        )  # fmt: skip
        offsets.update(of_file)
    gaps = tuple(Gap(each, each, "compaction") for each in range(start, end) if each not in offsets)
    return Chunk(
        "orders", TOPIC_ID, 0, start, end, token, sum(each.records for each in files),
        add(*(each.rollup for each in files)), tuple(files), gaps, 0, 0,
    )  # fmt: skip


def write_archive(root: Path, *chunks: Chunk, start: int = 0) -> ArchiveFolder:
    """Makes an archive that has one partition and these chunks, each in a commit of its own."""
    create_archive(str(root), ARCHIVE)
    folder = ArchiveFolder(str(root))
    loaded = folder.load()
    partitions = [ArchivedPartition("orders", TOPIC_ID, 0, start)]
    for number, chunk in enumerate(chunks):
        committed = folder.commit(
            loaded, f"{number:08x}", 0, partitions_added=() if number else partitions, chunks_added=[chunk]
        )
        assert committed is not None
        loaded = committed
    return folder
