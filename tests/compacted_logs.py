"""Logs with keys, for tests of compaction: written in one line, read back as records."""

from collections.abc import Iterable, Sequence
from typing import Any

from logs import log_at
from msgspec.structs import replace
from simulation.files import SimulatedFiles

from tailrace.protocol.batches.record_batch import BatchHeader, iterate, read_header
from tailrace.protocol.batches.records import Record, build_batch, read_records
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig

DIRECTORY = "/data/topics/tables/7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b/0"
CONFIG = LogConfig(
    segment_bytes_max=400,
    index_interval_bytes=100,
    deletes=False,
    compacts=True,
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
)

Pair = tuple[str, str | None]
"""A key and its value; None is a tombstone."""


def open_log(files: SimulatedFiles, config: LogConfig = CONFIG, *, clean: bool = False) -> Log:
    return log_at(files, DIRECTORY, config, clean=clean)


def append(log: Log, *pairs: Pair, time: int = 0, epoch: int = 0, **attributes: Any) -> bytes:
    """Appends one batch."""
    records = [
        Record(log.log_end + index, time, key.encode(), None if value is None else value.encode())
        for index, (key, value) in enumerate(pairs)
    ]
    batch = build_batch(records, base_offset=log.log_end, leader_epoch=epoch, **attributes)
    log.append(memoryview(batch), read_header(batch))
    return bytes(batch)


def seal(log: Log) -> None:
    """Seals the open segment, unless it is empty."""
    if log.segments()[-1].size:
        log.roll()


def log_of(*segments: list[tuple[str, str | None]], files: SimulatedFiles | None = None, **config: object) -> Log:
    """Makes a log with a sealed segment for each list, a batch for each pair, and an empty open segment."""
    log = open_log(files or SimulatedFiles(), replace(CONFIG, **config))  # type: ignore[arg-type]
    for pairs in segments:
        for pair in pairs:
            append(log, pair)
        seal(log)
    return log


def batches(log: Log, offset: int | None = None) -> list[tuple[BatchHeader, bytes]]:
    """Returns everything that a consumer gets that reads from the offset on in small pieces."""
    result = []
    position = log.log_start if offset is None else offset
    while (found := log.read(position, 150, log.log_end, at_least_one=True)) is not None:
        data = found.read()
        for within, header in iterate(data):
            assert header.last_offset >= position
            result.append((header, data[within : within + header.size]))
            position = header.next_offset
    assert position == log.log_end
    return result


def records(log: Log, offset: int | None = None) -> list[Record]:
    found = [record for _, batch in batches(log, offset) for record in read_records(batch)]
    assert found == sorted(found, key=lambda record: record.offset)
    return [record for record in found if offset is None or record.offset >= offset]


def contents(log: Log) -> list[tuple[int, str, str | None]]:
    """Returns offset, key and value of all records."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records(log)
    ]


def table(found: Iterable[Record]) -> dict[bytes, bytes]:
    """Returns the table of a reader that keeps the last value of each key."""
    result: dict[bytes, bytes] = {}
    for record in found:
        assert record.key is not None
        if record.value is None:
            result.pop(record.key, None)
        else:
            result[record.key] = record.value
    return result


def sizes(log: Log) -> Sequence[int]:
    return [segment.size for segment in log.segments()]
