"""Names of partitions, and the bounds of their logs."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct


class Partition(NamedTuple):
    """The name of a partition, printed as `orders/0`."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class LogEnds(Struct, frozen=True):
    """The bounds of a log."""

    start: int
    end: int
    """The offset after the last record."""


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
    """Groups partitions as requests need them: each topic once, with its partitions, in order."""
    of_topic = groupby(sorted(partitions), key=lambda each: each.topic)
    return [(topic, [each.number for each in those]) for topic, those in of_topic]
