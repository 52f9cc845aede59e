"""The layout of a data directory: where everything is stored, and how a replica's files are named.

A path contains a topic's name and its id: the name for people who look, the id so that a topic that was deleted and
created again never finds the records of its predecessor.
"""

from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from tailrace.runtime.files import Files

MANIFEST = "manifest"
PARKED = "parked"
CLEANED_SUFFIX = ".cleaned"
"""The suffix of a compacted `.log` that has not taken its place yet."""

REPLACEMENT_SUFFIX = ".again"
"""The suffix of a new copy of a shelf, which replaces a damaged copy when it is complete."""

_OFFSET_DIGITS = 20
_UUID_CHARACTERS = 36


class ShelfKey(NamedTuple):
    """Identifies a shelf: a range of a partition's log, by the offset at which it begins."""

    topic_id: UUID
    partition: int
    base: int


class Kind(StrEnum):
    """The content of a segment's file; the value is the file's suffix."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    PRODUCERS = ".producers"
    ABORTED = ".aborted"
    CLEANED_LOG = ".log" + CLEANED_SUFFIX


class SegmentFile(Struct, frozen=True):
    """What the name of a segment's file says."""

    offset: int
    """The segment's base offset. For a snapshot of producer states, the log end that it belongs to."""
    kind: Kind


def topics_directory(data_directory: str) -> str:
    return f"{data_directory}/topics"


def topic_directory(data_directory: str, topic: str, topic_id: UUID) -> str:
    return f"{data_directory}/topics/{topic}/{topic_id}"


def parked_path(data_directory: str, topic: str, topic_id: UUID, partition: int | None = None) -> str:
    """Returns the path of the file that marks a topic's or a partition's storage as parked.

    The file contains the time at which the storage was parked, in milliseconds.
    """
    name = PARKED if partition is None else f"{partition}.{PARKED}"
    return f"{topic_directory(data_directory, topic, topic_id)}/{name}"


def removed_directory(data_directory: str) -> str:
    """Returns the directory of replicas that are being removed and are never opened again."""
    return f"{data_directory}/removed"


def replica_directory(data_directory: str, topic: str, topic_id: UUID, partition: int) -> str:
    return f"{data_directory}/topics/{topic}/{topic_id}/{partition}"


def shelves_directory(data_directory: str) -> str:
    return f"{data_directory}/shelves"


def shelf_directory(data_directory: str, key: ShelfKey) -> str:
    return f"{data_directory}/shelves/{key.topic_id}-{key.partition}-{key.base}"


def parse_shelf_name(name: str) -> ShelfKey | None:
    """Returns the shelf to which a directory with this name belongs; None for any other name."""
    numbers = name[_UUID_CHARACTERS:].split("-")
    if len(numbers) != 3 or numbers[0] or not all(each.isascii() and each.isdigit() for each in numbers[1:]):
        return None
    try:
        return ShelfKey(UUID(name[:_UUID_CHARACTERS]), int(numbers[1]), int(numbers[2]))
    except ValueError:
        return None


def removed_shelves_directory(data_directory: str) -> str:
    """Returns the directory of shelves that are being removed and are never opened again."""
    return f"{data_directory}/removed-shelves"


def directories_up_to_data(replica: str) -> list[str]:
    """Returns the directories on the path from a replica or a shelf up to its data directory, its own first."""
    data, *shelf = replica.rsplit("/", 2)
    if len(shelf) == 2 and shelf[0] == "shelves":
        return [replica, shelves_directory(data), data]
    _data, *below = replica.rsplit("/", 4)
    if len(below) != 4 or below[0] != "topics":
        return [replica]
    return [replica, *(replica.rsplit("/", levels)[0] for levels in range(1, 5))]


def replica_of(directory: str) -> tuple[UUID, int] | None:
    """Returns the topic id and the partition of a replica's directory; None for any other directory."""
    _data, *below = directory.rsplit("/", 4)
    try:
        return (UUID(below[2]), int(below[3])) if len(below) == 4 and below[0] == "topics" else None
    except ValueError:
        return None


def replica_of_file(path: str) -> tuple[UUID, int] | None:
    """Returns the topic id and the partition of the replica to which the file belongs; None if it belongs to none."""
    return replica_of(path.rpartition("/")[0])


def high_watermarks_path(data_directory: str) -> str:
    return f"{data_directory}/high-watermarks"


def removed_replicas_path(data_directory: str) -> str:
    return f"{data_directory}/removed-replicas"


def promises_path(data_directory: str) -> str:
    return f"{data_directory}/promises"


def store_path(data_directory: str) -> str:
    return f"{data_directory}/store"


def lock_path(data_directory: str) -> str:
    return f"{data_directory}/lock"


def spu_path(data_directory: str) -> str:
    return f"{data_directory}/spu"


def cluster_path(data_directory: str) -> str:
    return f"{data_directory}/cluster"


def clean_shutdown_path(data_directory: str) -> str:
    return f"{data_directory}/clean-shutdown"


def file_name(offset: int, kind: Kind) -> str:
    return f"{offset:0{_OFFSET_DIGITS}}{kind}"


def parse_file_name(name: str) -> SegmentFile | None:
    """Parses the name of a segment's file. Returns None for any other name."""
    digits, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    if len(digits) != _OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        return SegmentFile(int(digits), Kind(suffix))
    except ValueError:
        return None


def log_bytes(files: Files, replica: str) -> int:
    """Returns the size of all `.log` files of a replica."""
    count = 0
    for name in files.list(replica):
        if name.endswith(Kind.LOG):
            with suppress(FileNotFoundError):  # a broker may be removing it right now
                count += files.size(f"{replica}/{name}")
    return count
