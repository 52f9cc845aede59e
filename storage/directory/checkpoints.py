"""Checkpoints: small facts about all replicas of a data directory, each in a file that is replaced atomically.

A fact about a single replica belongs in the manifest of the replica. The facts in this module are written often, or for
thousands of replicas at once.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

import crc32c

from tailrace.protocol.ids import Epoch
from tailrace.runtime.files import Files

from .layout import clean_shutdown_path, high_watermarks_path, removed_replicas_path

ReplicaKey = tuple[UUID, int]
"""A topic id and a partition."""


class SavedHighWatermark(NamedTuple):
    """A high watermark and the epoch for which it is known."""

    value: int
    epoch: Epoch
    """The epoch in which, or before which, the high watermark was committed; NO_EPOCH if that is unknown."""


HIGH_WATERMARKS_MAGIC = b"TRHW\x00\x02"
CLEAN_SHUTDOWN_MAGIC = b"TRCS\x00\x01"
REMOVED_REPLICAS_MAGIC = b"TRRR\x00\x01"
_REPLICA = struct.Struct("<16si")
_ENTRY = struct.Struct("<16siqq")
_CHECKSUM = struct.Struct("<I")


async def take_clean_shutdown_mark(files: Files, data_directory: str) -> set[ReplicaKey] | None:
    """Removes the clean-shutdown mark and returns the replicas whose logs it lists as cleanly closed.

    Returns None if the last process did not stop cleanly. The mark is valid for one start, so it is gone when this
    returns.
    """
    path = clean_shutdown_path(data_directory)
    if not files.exists(path):
        return None
    closed = decode_clean_shutdown_mark(files.read(path))
    files.remove(path)
    await files.sync_directory(data_directory)
    return closed


async def write_clean_shutdown_mark(files: Files, data_directory: str, closed: Iterable[ReplicaKey]) -> None:
    """Writes the clean-shutdown mark, which is the last step of a clean shutdown.

    The mark lists the replicas that it is valid for. A replica whose partition had moved away while the SPU was down is
    stored here but was never opened. Its log may still be torn, so the mark must not cover it.
    """
    replicas = b"".join(_REPLICA.pack(topic_id.bytes, partition) for topic_id, partition in sorted(closed))
    await files.replace(clean_shutdown_path(data_directory), _with_checksum(CLEAN_SHUTDOWN_MAGIC + replicas))


def decode_clean_shutdown_mark(data: bytes) -> set[ReplicaKey] | None:
    """Decodes a clean-shutdown mark. Returns None if it is damaged."""
    replicas = _without_checksum(data, CLEAN_SHUTDOWN_MAGIC, _REPLICA)
    if replicas is None:
        return None
    return {(UUID(bytes=topic_id), partition) for topic_id, partition in _REPLICA.iter_unpack(replicas)}


async def save_high_watermarks(
    files: Files, data_directory: str, high_watermarks: Mapping[ReplicaKey, SavedHighWatermark]
) -> None:
    """Replaces the checkpoint of the high watermarks."""
    data = bytearray(HIGH_WATERMARKS_MAGIC)
    for (topic_id, partition), high_watermark in high_watermarks.items():
        data += _ENTRY.pack(topic_id.bytes, partition, *high_watermark)
    await files.replace(high_watermarks_path(data_directory), _with_checksum(bytes(data)))


def load_high_watermarks(files: Files, data_directory: str) -> dict[ReplicaKey, SavedHighWatermark]:
    """Loads the saved high watermarks.

    A missing or damaged file counts as empty, since a high watermark that is too low does no harm.
    """
    try:
        return decode_high_watermarks(files.read(high_watermarks_path(data_directory))) or {}
    except FileNotFoundError:
        return {}


def decode_high_watermarks(data: bytes) -> dict[ReplicaKey, SavedHighWatermark] | None:
    """Decodes the checkpoint of the high watermarks. Returns None if it is damaged."""
    entries = _without_checksum(data, HIGH_WATERMARKS_MAGIC, _ENTRY)
    if entries is None:
        return None
    return {
        (UUID(bytes=topic_id), partition): SavedHighWatermark(value, Epoch(epoch))
        for topic_id, partition, value, epoch in _ENTRY.iter_unpack(entries)
    }


async def save_removed_replicas(files: Files, data_directory: str, removed: Iterable[ReplicaKey]) -> None:
    """Saves which replicas had storage in this data directory and were removed, the newest last."""
    replicas = b"".join(_REPLICA.pack(topic_id.bytes, partition) for topic_id, partition in removed)
    await files.replace(removed_replicas_path(data_directory), _with_checksum(REMOVED_REPLICAS_MAGIC + replicas))


def load_removed_replicas(files: Files, data_directory: str) -> list[ReplicaKey]:
    """Loads the removed replicas. A missing or damaged file counts as empty."""
    path = removed_replicas_path(data_directory)
    return decode_removed_replicas(files.read(path)) or [] if files.exists(path) else []


def decode_removed_replicas(data: bytes) -> list[ReplicaKey] | None:
    """Decodes the list of removed replicas. Returns None if it is damaged."""
    replicas = _without_checksum(data, REMOVED_REPLICAS_MAGIC, _REPLICA)
    if replicas is None:
        return None
    return [(UUID(bytes=topic_id), partition) for topic_id, partition in _REPLICA.iter_unpack(replicas)]


def _with_checksum(content: bytes) -> bytes:
    return content + _CHECKSUM.pack(crc32c.crc32c(content))


def _without_checksum(data: bytes, magic: bytes, entry: struct.Struct) -> bytes | None:
    """Returns the encoded entries if the magic, the checksum and the size are right, otherwise None."""
    content, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if not content.startswith(magic) or checksum != _CHECKSUM.pack(crc32c.crc32c(content)):
        return None
    entries = content[len(magic) :]
    return entries if len(entries) % entry.size == 0 else None
