"""Chooses the partition of each record: by the hash of its key, as Kafka's own clients do, or at random.

So a key that other clients also produce to stays in one partition.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tailrace.runtime.chance import Chance

from .log_facts import Partition

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF


class Placeable(Protocol):
    """A record for which a partition is chosen."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def partition(self) -> int | None:
        """The partition that the record names, if any."""


Entry = TypeVar("Entry", bound=Placeable)


class PartitionChooser:
    """Chooses the partition of each record.

    A record that names a partition goes there, and a record with a key where every Kafka client puts it. Other records
    that arrive together go to the same random partition.
    """

    def __init__(self, partitions: Sequence[Partition], chosen: Partition | None, chance: Chance) -> None:
        self._partitions = partitions
        self._chosen = chosen
        self._chance = chance

    def divide(self, entries: Sequence[Entry]) -> dict[Partition, list[Entry]]:
        """Divides entries that have arrived together among partitions."""
        without_key = self._chosen or self._chance.choice(self._partitions)
        divided: dict[Partition, list[Entry]] = {}
        for entry in entries:
            partition = without_key
            if entry.partition is not None and self._chosen is None:
                partition = Partition(partition.topic, entry.partition)
            elif entry.key is not None and self._chosen is None:
                partition = self._partitions[partition_of_key(entry.key, len(self._partitions))]
            divided.setdefault(partition, []).append(entry)
        return divided


def partition_of_key(key: bytes, count: int) -> int:
    """Returns the partition of a key in a topic with `count` partitions."""
    return (murmur2(key) & 0x7FFF_FFFF) % count


def murmur2(data: bytes) -> int:
    """Returns the 32-bit murmur2 hash of `data`, with the seed of Kafka's clients."""
    whole = len(data) & ~3
    value = _SEED ^ len(data)
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        value = value * _M & _MASK ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15
