"""What commands say of logs: which partition, and from where to where there are records."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class LogEnds(Struct, frozen=True):
    start: int
    end: int


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """As requests name them: each topic once, with its partitions, in order."""
    of_topic = groupby(sorted(partitions), key=lambda each: each.topic)
    return [(topic, [each.number for each in those]) for topic, those in of_topic]
