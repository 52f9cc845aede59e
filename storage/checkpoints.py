"""Small facts about all replicas of a data directory, each in one file that is replaced atomically.

What concerns one replica alone is in its manifest; these are written often, or for thousands of replicas at once.
"""

from collections.abc import Mapping
from struct import Struct
from uuid import UUID

import crc32c

from tailrace.runtime.files import Files

from .layout import clean_shutdown_path, high_watermarks_path

ReplicaKey = tuple[UUID, int]
"""Topic id and partition."""

HIGH_WATERMARKS_MAGIC = b"TRHW\x00\x01"
CLEAN_SHUTDOWN_MARK = b"closed cleanly\n"
_ENTRY = Struct("<16siq")
_CHECKSUM = Struct("<I")


async def take_clean_shutdown_mark(files: Files, data_directory: str) -> bool:
    """Whether every log here was closed cleanly. The mark is gone when this returns: it is good for one start."""
    path = clean_shutdown_path(data_directory)
    if not files.exists(path):
        return False
    files.remove(path)
    await files.sync_directory(data_directory)
    return True


async def leave_clean_shutdown_mark(files: Files, data_directory: str) -> None:
    """The last act of a clean shutdown, after every log was closed."""
    await files.replace(clean_shutdown_path(data_directory), CLEAN_SHUTDOWN_MARK)


async def save_high_watermarks(files: Files, data_directory: str, high_watermarks: Mapping[ReplicaKey, int]) -> None:
    data = bytearray(HIGH_WATERMARKS_MAGIC)
    for (topic_id, partition), high_watermark in high_watermarks.items():
        data += _ENTRY.pack(topic_id.bytes, partition, high_watermark)
    data += _CHECKSUM.pack(crc32c.crc32c(data))
    await files.replace(high_watermarks_path(data_directory), bytes(data))


def load_high_watermarks(files: Files, data_directory: str) -> dict[ReplicaKey, int]:
    """Empty when there is no file, or none that can be believed: a high watermark that is too low does no harm."""
    try:
        return decode_high_watermarks(files.read(high_watermarks_path(data_directory))) or {}
    except FileNotFoundError:
        return {}


def decode_high_watermarks(data: bytes) -> dict[ReplicaKey, int] | None:
    """None when this is not what was written."""
    content, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if not content.startswith(HIGH_WATERMARKS_MAGIC) or checksum != _CHECKSUM.pack(crc32c.crc32c(content)):
        return None
    return {
        (UUID(bytes=topic_id), partition): high_watermark
        for topic_id, partition, high_watermark in _ENTRY.iter_unpack(content[len(HIGH_WATERMARKS_MAGIC) :])
    }
