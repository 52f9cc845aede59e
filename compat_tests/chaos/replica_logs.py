"""Reads the copies of a partition from the directories of nodes, and compares them except for leader epochs.

The files contain Kafka's record batches one after the other, with Apache Kafka as with Tailrace. Batches are compared
and not files, because the files of another node may begin and end at other offsets.
"""

import itertools
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HEADER = struct.Struct(">qiibIhi")
LENGTH_BEFORE_BATCH = 12
PRODUCER = struct.Struct(">qhi")
LENGTH_BEFORE_PRODUCER = 27
"""The number of bytes before the producer's fields, in the content of a batch."""
CONTROL = 1 << 5


@dataclass(frozen=True)
class StoredBatch:
    base: int
    last: int
    epoch: int = field(compare=False)
    """The epoch of the leader that appended or recovered the batch.

    A copy keeps its stamp if it took no part in a recovery and already knew that the batch is committed.
    """
    is_control: bool
    content: bytes
    """The bytes of the batch without base offset, length and epoch."""

    @property
    def producer(self) -> tuple[int, int, int]:
        """The producer's id, epoch and first sequence."""
        return PRODUCER.unpack_from(self.content, LENGTH_BEFORE_PRODUCER)

    def __str__(self) -> str:
        kind = "control batch" if self.is_control else "batch"
        producer, producer_epoch, sequence = self.producer
        return (
            f"{kind} {self.base}..{self.last} of epoch {self.epoch}, {len(self.content)} bytes, "
            f"by producer {producer} in its epoch {producer_epoch} from sequence {sequence} on"
        )


def read_replica(directory: Path) -> list[StoredBatch]:
    files = sorted(path for path in directory.glob("*.log") if path.stem.isdigit())
    return [batch for path in files for batch in _batches(path.read_bytes(), path)]


def control_offsets(log: list[StoredBatch]) -> set[int]:
    """Returns the offsets of control batches, which consumers do not see."""
    return {offset for batch in log if batch.is_control for offset in range(batch.base, batch.last + 1)}


def restarted_epochs(log: list[StoredBatch]) -> list[str]:
    """Returns batches with which producers started a new epoch.

    A producer does so after it was told of a gap, and may have stored a record twice before that.
    """
    return [
        f"after it was told of a gap, a producer started a new epoch with {batch}"
        for batch in log
        if not batch.is_control and batch.producer[1] > 0 and batch.producer[2] == 0
    ]


def differences(copies: Mapping[int, list[StoredBatch]], up_to: float = math.inf) -> list[str]:
    """Returns where the copies of other nodes differ from the first node's copy, below an offset."""
    (first, log), *others = ((node, [each for each in copy if each.last < up_to]) for node, copy in copies.items())
    found = []
    for node, copy in others:
        for mine, theirs in itertools.zip_longest(log, copy):
            if mine != theirs:
                found.append(f"node {first} has {mine}, node {node} has {theirs}")
                break
    return found


def _batches(data: bytes, path: Path) -> Iterator[StoredBatch]:
    position = 0
    while position + HEADER.size <= len(data):
        base, length, epoch, magic, _, attributes, last_delta = HEADER.unpack_from(data, position)
        end = position + LENGTH_BEFORE_BATCH + length
        assert magic == 2, f"{path} has no batch at {position}"
        if end > len(data):
            return  # it is being written
        yield StoredBatch(base, base + last_delta, epoch, bool(attributes & CONTROL), data[position + 16 : end])
        position = end
