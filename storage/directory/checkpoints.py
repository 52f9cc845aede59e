"""Small facts about all replicas of a data directory, each in one file that is replaced atomically.

What concerns one replica alone is in its manifest; these are written often, or for thousands of replicas at once.
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
"""Topic id and partition."""


class SavedHighWatermark(NamedTuple):
    value: int
    epoch: Epoch
    """In which, or before which, that was committed; NO_EPOCH: nobody knows."""


HIGH_WATERMARKS_MAGIC = b"TRHW\x00\x02"
CLEAN_SHUTDOWN_MAGIC = b"TRCS\x00\x01"
REMOVED_REPLICAS_MAGIC = b"TRRR\x00\x01"
_REPLICA = struct.Struct("<16si")
_ENTRY = struct.Struct("<16siqq")
_CHECKSUM = struct.Struct("<I")


async def take_clean_shutdown_mark(files: Files, data_directory: str) -> set[ReplicaKey] | None:
    """The replicas whose logs were closed cleanly; None if the last process did not stop cleanly. The mark is gone when
    this returns: it is good for one start."""
    path = clean_shutdown_path(data_directory)
    if not files.exists(path):
        return None
    closed = decode_clean_shutdown_mark(files.read(path))
    files.remove(path)
    await files.sync_directory(data_directory)
    return closed


async def leave_clean_shutdown_mark(files: Files, data_directory: str, closed: Iterable[ReplicaKey]) -> None:
    """The last act of a clean shutdown. It names the replicas that it speaks for: what lies here and was never opened,
    since its partition had moved away while the SPU was down, is as torn as it was."""
    replicas = b"".join(_REPLICA.pack(topic_id.bytes, partition) for topic_id, partition in sorted(closed))
    await files.replace(clean_shutdown_path(data_directory), _with_checksum(CLEAN_SHUTDOWN_MAGIC + replicas))


def decode_clean_shutdown_mark(data: bytes) -> set[ReplicaKey] | None:
    """None when this is not what was written."""
    replicas = _without_checksum(data, CLEAN_SHUTDOWN_MAGIC, _REPLICA)
    if replicas is None:
        return None
    return {(UUID(bytes=topic_id), partition) for topic_id, partition in _REPLICA.iter_unpack(replicas)}


async def save_high_watermarks(
    files: Files, data_directory: str, high_watermarks: Mapping[ReplicaKey, SavedHighWatermark]
) -> None:
    data = bytearray(HIGH_WATERMARKS_MAGIC)
    for (topic_id, partition), high_watermark in high_watermarks.items():
        data += _ENTRY.pack(topic_id.bytes, partition, *high_watermark)
    await files.replace(high_watermarks_path(data_directory), _with_checksum(bytes(data)))


def load_high_watermarks(files: Files, data_directory: str) -> dict[ReplicaKey, SavedHighWatermark]:
    """Empty when there is no file, or none that can be believed: a high watermark that is too low does no harm."""
    try:
        return decode_high_watermarks(files.read(high_watermarks_path(data_directory))) or {}
    except FileNotFoundError:
        return {}


def decode_high_watermarks(data: bytes) -> dict[ReplicaKey, SavedHighWatermark] | None:
    """None when this is not what was written."""
    entries = _without_checksum(data, HIGH_WATERMARKS_MAGIC, _ENTRY)
    if entries is None:
        return None
    return {
        (UUID(bytes=topic_id), partition): SavedHighWatermark(value, Epoch(epoch))
        for topic_id, partition, value, epoch in _ENTRY.iter_unpack(entries)
    }


async def save_removed_replicas(files: Files, data_directory: str, removed: Iterable[ReplicaKey]) -> None:
    """Those that had something here, the newest last."""
    replicas = b"".join(_REPLICA.pack(topic_id.bytes, partition) for topic_id, partition in removed)
    await files.replace(removed_replicas_path(data_directory), _with_checksum(REMOVED_REPLICAS_MAGIC + replicas))


def load_removed_replicas(files: Files, data_directory: str) -> list[ReplicaKey]:
    """None are known when there is no file, or none that can be believed."""
    path = removed_replicas_path(data_directory)
    return decode_removed_replicas(files.read(path)) or [] if files.exists(path) else []


def decode_removed_replicas(data: bytes) -> list[ReplicaKey] | None:
    """None when this is not what was written."""
    replicas = _without_checksum(data, REMOVED_REPLICAS_MAGIC, _REPLICA)
    if replicas is None:
        return None
    return [(UUID(bytes=topic_id), partition) for topic_id, partition in _REPLICA.iter_unpack(replicas)]


def _with_checksum(content: bytes) -> bytes:
    return content + _CHECKSUM.pack(crc32c.crc32c(content))


def _without_checksum(data: bytes, magic: bytes, entry: struct.Struct) -> bytes | None:
    """The entries, if they are whole."""
    content, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if not content.startswith(magic) or checksum != _CHECKSUM.pack(crc32c.crc32c(content)):
        return None
    entries = content[len(magic) :]
    return entries if len(entries) % entry.size == 0 else None
