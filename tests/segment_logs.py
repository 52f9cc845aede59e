"""Data directories of SPUs with real logs, for tests of what reads their files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from logs import log_at

from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.batches.records import Record, build_batch
from tailrace.protocol.batches.transaction_markers import marker_batch
from tailrace.protocol.ids import Epoch
from tailrace.runtime.files import RealFiles
from tailrace.storage.directory.checkpoints import SavedHighWatermark, save_high_watermarks
from tailrace.storage.directory.layout import ShelfKey, replica_directory, shelf_directory
from tailrace.storage.log.log import Log
from tailrace.storage.log_config import LogConfig

TOPIC_ID = UUID("7b4bd4a2-45c9-4a05-9f84-6a26aa4a4d6b")
CONFIG = LogConfig(segment_bytes_max=4000, index_interval_bytes=300)
START_MS = 1_700_000_000_000


class Spu:
    """A data directory."""

    def __init__(self, directory: Path, config: LogConfig = CONFIG) -> None:
        self.directory = str(directory)
        self.files = RealFiles()
        self._config = config
        self._high_watermarks: dict[tuple[UUID, int], SavedHighWatermark] = {}

    def log(self, partition: int = 0, *, topic: str = "events", topic_id: UUID = TOPIC_ID, clean: bool = False) -> Log:
        directory = replica_directory(self.directory, topic, topic_id, partition)
        self.files.make_directories(directory)
        return log_at(self.files, directory, self._config, clean=clean)

    def shelf(self, base: int, partition: int = 0, topic_id: UUID = TOPIC_ID) -> Log:
        return log_at(
            self.files, shelf_directory(self.directory, ShelfKey(topic_id, partition, base)), self._config, clean=False
        )

    async def commit(self, offset: int, partition: int = 0, topic_id: UUID = TOPIC_ID) -> None:
        """Saves the high watermark."""
        self._high_watermarks[topic_id, partition] = SavedHighWatermark(offset, Epoch(0))
        await save_high_watermarks(self.files, self.directory, self._high_watermarks)


def append(log: Log, records: Sequence[tuple[bytes | None, bytes | None]], **attributes: Any) -> None:
    """Appends one batch. The time of a record is its offset in seconds after `START_MS`."""
    end = log.log_end
    batch = build_batch(
        [Record(end + i, START_MS + (end + i) * 1000, key, value) for i, (key, value) in enumerate(records)],
        base_offset=end,
        **{"leader_epoch": 0, **attributes},
    )
    log.append(memoryview(batch), read_header(batch))


def fill(log: Log, count: int, *, per_batch: int = 5, keys: int = 7, size: int = 60, **attributes: Any) -> None:
    """Appends batches of records with repeating keys, until the log has `count` more records."""
    end = log.log_end + count
    while log.log_end < end:
        offsets = range(log.log_end, min(log.log_end + per_batch, end))
        append(log, [(b"key-%d" % (offset % keys), b"%0*d" % (size, offset)) for offset in offsets], **attributes)


def append_in_transaction(log: Log, producer_id: int, values: Sequence[bytes], *, key: bytes | None = None) -> None:
    """Appends one batch to the transaction of a producer."""
    newest = log.producers.newest(producer_id)
    append(
        log,
        [(key, value) for value in values],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0 if newest is None else newest.last_sequence + 1,
        is_transactional=True,
    )


def end_transaction(log: Log, producer_id: int, *, is_commit: bool) -> None:
    """Appends the marker that ends the transaction of a producer."""
    base = log.log_end
    batch = marker_batch(
        base, 0, producer_id, 0, is_commit=is_commit, coordinator_epoch=1, now_ms=START_MS + base * 1000
    )
    log.append(memoryview(batch), read_header(batch))


def copy_of(log: Log, source: Log, start: int, end: int) -> None:
    """Appends the batches of another log in [start, end)."""
    for part in source.segment_list.ranges(start, end):
        data, position = part.read(), 0
        while position < len(data):
            header = read_header(data, position)
            batch = bytearray(data[position : position + header.size])
            log.append(memoryview(batch), header)
            position += header.size
