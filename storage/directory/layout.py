"""Where everything of a data directory lies, and what the files of a replica are called.

A topic's name and its id are both in the path: the name for the person who looks, the id so that a topic that was
deleted and created again never finds the records of its predecessor.
"""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

MANIFEST = "manifest"
PARKED = "parked"
CLEANED_SUFFIX = ".cleaned"
"""A compacted `.log` that has not taken its place yet."""

REPLACEMENT_SUFFIX = ".again"
"""Another copy of a shelf, which takes the place of a damaged one when it is complete."""

_OFFSET_DIGITS = 20
_UUID_CHARACTERS = 36


class ShelfKey(NamedTuple):
    """A stretch of a partition's log that is kept by others than its replicas, by where it begins."""

    topic_id: UUID
    partition: int
    base: int


class Kind(StrEnum):
    """What a file of a segment holds; the value is its suffix."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    PRODUCERS = ".producers"
    CLEANED_LOG = ".log" + CLEANED_SUFFIX


class SegmentFile(Struct, frozen=True):
    offset: int
    """The segment's base offset; for producers' states, the log end they belong to."""
    kind: Kind


def topics_directory(data_directory: str) -> str:
    return f"{data_directory}/topics"


def topic_directory(data_directory: str, topic: str, topic_id: UUID) -> str:
    return f"{data_directory}/topics/{topic}/{topic_id}"


def parked_path(data_directory: str, topic: str, topic_id: UUID, partition: int | None = None) -> str:
    """Marks the storage of a topic, or of a partition, as kept only for a while; its content is the time, in
    milliseconds, since when."""
    name = PARKED if partition is None else f"{partition}.{PARKED}"
    return f"{topic_directory(data_directory, topic, topic_id)}/{name}"


def removed_directory(data_directory: str) -> str:
    """What lies in there is being removed, and nobody opens it again."""
    return f"{data_directory}/removed"


def replica_directory(data_directory: str, topic: str, topic_id: UUID, partition: int) -> str:
    return f"{data_directory}/topics/{topic}/{topic_id}/{partition}"


def shelves_directory(data_directory: str) -> str:
    return f"{data_directory}/shelves"


def shelf_directory(data_directory: str, key: ShelfKey) -> str:
    return f"{data_directory}/shelves/{key.topic_id}-{key.partition}-{key.base}"


def shelf_of(name: str) -> ShelfKey | None:
    """Which shelf a directory with this name is of; None for anything else."""
    numbers = name[_UUID_CHARACTERS:].split("-")
    if len(numbers) != 3 or numbers[0] or not all(each.isascii() and each.isdigit() for each in numbers[1:]):
        return None
    try:
        return ShelfKey(UUID(name[:_UUID_CHARACTERS]), int(numbers[1]), int(numbers[2]))
    except ValueError:
        return None


def removed_shelves_directory(data_directory: str) -> str:
    """As that of removed replicas, for shelves."""
    return f"{data_directory}/removed-shelves"


def directories_up_to_data(replica: str) -> list[str]:
    """Those that have an entry of the path to this replica, or shelf, from its own up to the data directory."""
    data, *shelf = replica.rsplit("/", 2)
    if len(shelf) == 2 and shelf[0] == "shelves":
        return [replica, shelves_directory(data), data]
    _data, *below = replica.rsplit("/", 4)
    if len(below) != 4 or below[0] != "topics":
        return [replica]
    return [replica, *(replica.rsplit("/", levels)[0] for levels in range(1, 5))]


def replica_of(directory: str) -> tuple[UUID, int] | None:
    """The topic's id and the partition, if this is where a replica lies in a data directory."""
    _data, *below = directory.rsplit("/", 4)
    try:
        return (UUID(below[2]), int(below[3])) if len(below) == 4 and below[0] == "topics" else None
    except ValueError:
        return None


def replica_of_file(path: str) -> tuple[UUID, int] | None:
    """The same of a file that belongs to a replica."""
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
    """None for a file that belongs to no segment."""
    digits, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    if len(digits) != _OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        return SegmentFile(int(digits), Kind(suffix))
    except ValueError:
        return None
