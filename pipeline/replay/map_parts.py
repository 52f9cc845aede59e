"""Reads and writes the files of a map: the parts in Parquet, and the document that says what the directory is."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from tailrace.runtime.embedded.plain_files import make_directories, names_in, read_file, write_once

from .offset_map import (
    DOCUMENT,
    OffsetTable,
    PartState,
    PendingRanges,
    count_parts,
    decode_state,
    encode_state,
    part_name,
)
from .replay_line import ReplayError
from .replay_position import MappedRange, ReplayPosition

RANGES_MAX = 64 * 1024
"""About how many ranges a part has at most. A filter of keys makes many."""
_STATE_KEY = b"tailrace.replay"
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("to_topic", pa.string()),
        ("to_offset", pa.int64()),
        ("records", pa.int64()),
    ]
)


class MapNames(Struct, frozen=True):
    """What is the same in all rows of a partition."""

    topic: str
    topic_id: str
    partition: int
    to_topic: str


class PartWriter:
    """Writes the parts of one partition, beginning after those that exist."""

    def __init__(self, directory: str, names: MapNames, start: ReplayPosition) -> None:
        """`start` is the position before the first part."""
        self._directory = directory
        self._names = names
        self._number = count_parts(names_in(directory), names.partition)
        self.state = PartState(start)
        """The state after the last part that is known."""
        if self._number:
            self.state = _read_state(self._path(self._number - 1))
        self._pending = PendingRanges(self.state.position.ordinal)

    @property
    def is_full(self) -> bool:
        """Whether a part is due, because so many ranges wait for it."""
        return len(self._pending.ranges) >= RANGES_MAX

    def add(self, ranges: Sequence[MappedRange]) -> None:
        """Takes ranges for the next part."""
        self._pending.add(ranges)

    def write(self, state: PartState) -> None:
        """Writes a part with what is pending, after which the partition is in this state.

        A part that another attempt has written meanwhile is taken over. Raises ReplayError.
        """
        while self._pending.ranges or (state.is_end and not self.state.is_end):
            path = self._path(self._number)
            try:
                is_first = write_once(path, _encode(self._names, self._pending.ranges, state))
            except OSError as error:
                raise ReplayError(
                    f"{path} cannot be written: {error.strerror or error}; remove the cause and run the same command "
                    "again, and the replay goes on"
                ) from error
            if is_first:
                self.state = state
            else:
                self.state = _read_state(path)
            self._number += 1
            self._pending.on_written(self.state.position)

    def _path(self, number: int) -> str:
        return f"{self._directory}/{part_name(self._names.partition, number)}"


def last_state(directory: str, partition: int) -> PartState | None:
    """Returns the state after the last part of a partition; None if there is no part."""
    count = count_parts(names_in(directory), partition)
    return _read_state(f"{directory}/{part_name(partition, count - 1)}") if count else None


def partition_ranges(directory: str, partition: int) -> Iterator[MappedRange]:
    """Yields what the map says about one partition, in order. Raises OSError."""
    for number in range(count_parts(names_in(directory), partition)):
        table = pq.read_table(io.BytesIO(read_file(f"{directory}/{part_name(partition, number)}")))
        columns = [table.column(name).to_pylist() for name in ("offset", "to_offset", "records")]
        for row in zip(*columns, strict=True):
            yield MappedRange(*row)


def target_offset(directory: str, partition: int, offset: int) -> int | None:
    """Returns which offset a record of the source got in the target; None if it was not sent.

    `directory` is the map of a replay. Without Spark, this reads the parts of one partition.
    """
    return OffsetTable(partition_ranges(directory, partition)).target_of(offset)


def read_document(directory: str) -> bytes | None:
    """Returns the document of a map; None if the directory has none."""
    try:
        return read_file(f"{directory}/{DOCUMENT}")
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_document(directory: str, content: bytes) -> bool:
    """Makes the directory, and writes its document. Returns False if it has one. Raises OSError."""
    make_directories(directory)
    return write_once(f"{directory}/{DOCUMENT}", content)


def _read_state(path: str) -> PartState:
    try:
        metadata: Any = pq.read_schema(io.BytesIO(read_file(path))).metadata
        return decode_state(metadata[_STATE_KEY])
    except (pa.ArrowException, msgspec.MsgspecError, LookupError, TypeError) as error:
        raise ReplayError(
            f"{path} is damaged, and says how far the replay is: restore it from a backup, or begin another replay "
            "into an empty topic, with another directory for its map"
        ) from error


def _encode(names: MapNames, ranges: Sequence[MappedRange], state: PartState) -> bytes:
    count = len(ranges)
    columns = [
        pa.array([names.topic] * count, pa.string()),
        pa.array([names.topic_id] * count, pa.string()),
        pa.array([names.partition] * count, pa.int32()),
        pa.array([each.source for each in ranges], pa.int64()),
        pa.array([names.to_topic] * count, pa.string()),
        pa.array([each.target for each in ranges], pa.int64()),
        pa.array([each.records for each in ranges], pa.int64()),
    ]
    schema = _SCHEMA.with_metadata({_STATE_KEY: encode_state(state)})
    output = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), output, compression="zstd")
    return output.getvalue()
