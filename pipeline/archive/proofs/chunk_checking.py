"""What a task does to check a chunk: reads its files and the same offsets of the log, and compares them."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.pipeline.archive.chunks.archive_reading import group_batches
from tailrace.pipeline.archive.manifest.archive_layout import NO_DATE, date_of_day
from tailrace.pipeline.archive.manifest.archive_manifest import Chunk, DataFile
from tailrace.pipeline.archive.manifest.offset_runs import Run, runs_of
from tailrace.pipeline.archive.manifest.record_rollup import HASHED_COLUMNS, record_hashes
from tailrace.pipeline.segments.arrow_rows import ArrowBatch
from tailrace.pipeline.segments.record_columns import Column
from tailrace.runtime.embedded.plain_files import PlainFile

from .archive_proof import ChunkProof, FileFindings, LogFindings, check_chunk

_BATCH_ROWS = 32 * 1024
_DAY_US = 86_400_000_000
_READ_BYTES = 2**20
_DAMAGES = (OSError, LookupError, ValueError, TypeError, ArithmeticError)
"""What reading a damaged file may raise, in any of the libraries."""
_PLACE_COLUMNS = ("topic", "partition")


class Records(Struct):
    """The offsets of records and their hashes: 16 bytes for each record."""

    offsets: Column
    hashes: Column

    def sorted(self) -> "Records":
        order = np.argsort(self.offsets, kind="stable")
        return Records(self.offsets[order], self.hashes[order])


class ReadLog(Struct):
    """What the log has of the offsets of a chunk, before it is compared."""

    records: Records
    end: int
    """The offset after the last committed one."""
    deleted: tuple[Run, ...] = ()
    never: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    is_compacted: bool = False


def prove_chunk(root: str, chunk: Chunk, read_log: Callable[[], ReadLog | str] | None) -> ChunkProof:
    """Reads the files of a chunk and the log, and checks them. `read_log` returns a sentence if it cannot be read."""
    read = [read_file(root, chunk, file) for file in chunk.files]
    findings = [found for found, _ in read]
    if read_log is None or any(each.fault for each in findings):
        return check_chunk(chunk, findings)
    log = read_log()
    if isinstance(log, str):
        return check_chunk(chunk, findings, LogFindings(fault=log))
    return check_chunk(chunk, findings, compare(together(records for _, records in read), log))


def compare(archived: Records, log: ReadLog) -> LogFindings:
    """Compares the records of the archive with those of the log that have the same offsets."""
    archived, logged = archived.sorted(), log.records.sorted()
    offsets, here, there = np.intersect1d(archived.offsets, logged.offsets, return_indices=True)
    ours, theirs = archived.hashes[here], logged.hashes[there]
    return LogFindings(
        end=log.end,
        runs=tuple(runs_of(logged.offsets)),
        is_compacted=log.is_compacted,
        deleted=log.deleted,
        never=log.never,
        common_rollup=int(np.add.reduce(theirs, dtype=np.uint64)),
        archive_rollup=int(np.add.reduce(ours, dtype=np.uint64)),
        differing=tuple(runs_of(offsets[ours != theirs])),
    )


def together(parts: Iterable[Records]) -> Records:
    """Puts parts together, in their order."""
    found = list(parts)
    none = Records(np.zeros(0, np.int64), np.zeros(0, np.uint64))
    return Records(
        *(np.concatenate([getattr(each, name) for each in (none, *found)]) for name in ("offsets", "hashes"))
    )


def records_of(batches: Iterable[ArrowBatch]) -> Records:
    """Returns the offsets and the hashes of the rows."""
    return together(Records(np.asarray(batch.column("offset")), record_hashes(batch)) for batch in batches)


def read_file(root: str, chunk: Chunk, file: DataFile) -> tuple[FileFindings, Records]:
    """Reads a file of a chunk. A file that cannot be read has a fault, and no records."""
    nothing = records_of(())
    path = os.path.join(root, file.path)
    try:
        content = PlainFile(path)
        size = content.size()
        if size != file.bytes:
            what = "is truncated" if size < file.bytes else "is too long"
            return FileFindings(file.path, f"{what}: it has {size} bytes, and the manifest says {file.bytes}"), nothing
        is_changed = file.sha256 is not None and _sha256(content, size) != file.sha256
        found, records = _read_rows(path, chunk, file)
        return replace(found, is_changed=is_changed), records
    except FileNotFoundError:
        return FileFindings(file.path, "is missing"), nothing
    except (*_DAMAGES, pa.ArrowException) as error:
        return FileFindings(file.path, f"cannot be read: {' '.join(str(error).split())}"), nothing


def _sha256(content: PlainFile, size: int) -> str:
    found = hashlib.sha256()
    for position in range(0, size, _READ_BYTES):
        found.update(content.read_at(position, _READ_BYTES))
    return found.hexdigest()


def _read_rows(path: str, chunk: Chunk, file: DataFile) -> tuple[FileFindings, Records]:
    parts: list[Records] = []
    strays = 0
    with pq.ParquetFile(path) as parquet:
        names = parquet.schema_arrow.names
        if missing := [name for name in HASHED_COLUMNS if name not in names]:
            return FileFindings(file.path, f"cannot be read: it has no column {missing[0]}"), records_of(())
        columns = [name for name in (*HASHED_COLUMNS, *_PLACE_COLUMNS) if name in names]
        for batch in group_batches(parquet, _BATCH_ROWS, columns):
            parts.append(records_of([batch]))
            strays += _strays(batch, chunk, file)
    records = together(parts)
    order = np.sort(records.offsets)
    is_new = np.concatenate(([True], np.diff(order) > 0))[: len(order)]
    runs = [*runs_of(order[is_new]), *((each, each) for each in order[~is_new].tolist())]
    return (
        FileFindings(
            file.path,
            records=len(records.offsets),
            rollup=int(np.add.reduce(records.hashes, dtype=np.uint64)),
            runs=tuple(runs),
            strays=strays,
        ),
        records,
    )


def _strays(batch: ArrowBatch, chunk: Chunk, file: DataFile) -> int:
    """Counts the rows that do not belong into the file."""
    microseconds = batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    days = np.asarray(microseconds.fill_null(0)) // _DAY_US
    right_days = [day for day in np.unique(days).tolist() if date_of_day(day) == file.date]
    has_no_time = np.asarray(microseconds.is_null())
    is_stray = np.where(has_no_time, file.date != NO_DATE, ~np.isin(days, right_days))
    for name, wanted in (("topic", chunk.topic), ("partition", chunk.partition)):
        if name in batch.schema.names:
            is_stray |= np.asarray(pc.not_equal(batch.column(name), wanted))
    return int(is_stray.sum())
