"""The manifest of a replica: checksummed facts about its segments, epochs and log start, one per line.

Later lines override earlier ones. Lines are appended as things happen and cost no sync of their own. A change that must
not be half done, such as a truncation or a swap of segments, first replaces the whole file atomically. A line states
only what was on the disk when it was written, so a log opens without reading the segments that its manifest names. A
damaged line counts as absent: its segment is scanned.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import crc32c
from msgspec import Struct, field
from msgspec.structs import fields

from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.indexes.time_index import NO_TIMESTAMP

from .compaction_history import Compacted
from .leader_epochs import EpochStart

VERSION = 1
_CHECKSUM_DIGITS = 8
_ANY_EPOCH = 2**31 - 1
"""The value of `stamped_epoch` for lines of earlier versions, which did not state it."""


class AbortedFacts(NamedTuple):
    """What the manifest says about the aborted transactions whose markers are in a segment."""

    number: int
    checksum: int
    """The checksum of the `.aborted` file."""
    first_offset: int
    """The smallest first offset of these transactions."""
    foretold: int = 0
    """How many of them have no marker in the segment, because the log is a copy that may end before the marker."""


UNKNOWN_ABORTED = AbortedFacts(-1, 0, 0)
"""Stands for facts that are unknown until the segment is read."""


class SegmentFacts(Struct, frozen=True):
    """The state of a segment on the disk. `docs/formats.md` says what the checksums cover."""

    base: int
    end: int
    """The offset after the last record."""
    epoch: int = NO_EPOCH
    size: int = 0
    checksum: int = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    index_entries: int = 0
    index_checksum: int = 0
    time_index_checksum: int = 0
    last_indexed_position: int = 0
    """The position of the batch with the last index entry."""
    producers_checksum: int = 0
    """The checksum of the `.producers` file at the segment's end. 0 means that no producer had a state and there is
    no file, -1 that the file is missing."""
    epoch_starts: tuple[EpochStart, ...] | None = None
    """The epochs that began in the segment, if recovery has stamped it. None means that it has one epoch, its own,
    which began with it or in an earlier segment."""
    aborted: AbortedFacts | None = None
    """The aborted transactions whose markers are in the segment; None if there are none."""


_OPTIONAL_FIELDS = "epoch_starts", "aborted"
_FACT_FIELDS = tuple(each.name for each in fields(SegmentFacts) if each.name not in _OPTIONAL_FIELDS)


class Manifest(Struct):
    """The content of a manifest."""

    log_start: int = 0
    has_start: bool = True
    """Whether a line states the log start. Without one, the log start is that of a new log."""
    epochs: list[EpochStart] = field(default_factory=list)
    sealed: dict[int, SegmentFacts] = field(default_factory=dict)
    """The sealed segments, by base offset."""
    closed: SegmentFacts | None = None
    """The open segment as it was when the log was last closed cleanly."""
    stamped_end: int = 0
    """The offset below which recovery has stamped leader epochs: there `epochs` and bridges tell what began where,
    and batches do not."""
    stamped_epoch: int = NO_EPOCH
    """The largest epoch with which recovery has stamped."""
    flushed_end: int = 0
    """The offset up to which everything was on the disk at some time. Damage below it is not the trace of a crash."""
    compactions: list[Compacted] = field(default_factory=list)
    damaged_lines: int = 0
    version: int = VERSION
    """The format version. The lines of an unknown version may mean anything and are not read."""

    @property
    def is_start_certain(self) -> bool:
        """Whether the manifest proves that records before the log start were deleted and not lost."""
        return self.has_start and self.damaged_lines == 0

    @property
    def synced_end(self) -> int:
        """The largest offset up to which, by any line, everything was on the disk."""
        closed_end = self.closed.end if self.closed is not None else 0
        return max(self.flushed_end, closed_end, *(facts.end for facts in self.sealed.values()), 0)

    @property
    def trusted_end(self) -> int:
        """The offset below which no record after the log start may be missing.

        It is 0 if everything synced is below the log start: then nothing has to exist. After a power failure a removed
        segment below the log start may be back, and torn.
        """
        end = self.synced_end
        return end if end > self.log_start else 0


def encode(manifest: Manifest) -> bytes:
    """Returns the whole file."""
    lines = [format_line(), start_line(manifest.log_start)]
    lines += [epoch_line(start) for start in manifest.epochs]
    lines += [sealed_line(facts) for _, facts in sorted(manifest.sealed.items())]
    lines += [compacted_line(compacted) for compacted in manifest.compactions]
    if manifest.stamped_end:
        lines.append(stamped_line(manifest.stamped_end, manifest.stamped_epoch))
    lines.append(flushed_line(manifest.flushed_end))
    if manifest.closed is not None:
        lines.append(closed_line(manifest.closed))
    if manifest.log_start:  # a second time: nothing else tells the log start, and one of the two lines may be damaged
        lines.append(start_line(manifest.log_start))
    return b"".join(lines)


def format_line() -> bytes:
    return _line("format", {"version": VERSION})


def start_line(log_start: int) -> bytes:
    return _line("start", {"offset": log_start})


def epoch_line(start: EpochStart) -> bytes:
    return _line("epoch", {"epoch": start.epoch, "start": start.start})


def stamped_line(end: int, epoch: int) -> bytes:
    return _line("stamped", {"offset": end, "epoch": epoch})


def sealed_line(facts: SegmentFacts) -> bytes:
    return _line("sealed", _values(facts))


def closed_line(facts: SegmentFacts) -> bytes:
    return _line("closed", _values(facts))


def _values(facts: SegmentFacts) -> dict[str, Any]:
    values = {name: getattr(facts, name) for name in _FACT_FIELDS}
    if facts.epoch_starts is not None:
        values["epoch_starts"] = facts.epoch_starts
    if facts.aborted is not None:
        values["aborted"] = facts.aborted
    return values


def flushed_line(end: int) -> bytes:
    return _line("flushed", {"offset": end})


def compacted_line(compacted: Compacted) -> bytes:
    return _line("compacted", {"offset": compacted.end, "at": compacted.at_ms})


def _line(fact: str, values: dict[str, Any]) -> bytes:
    text = json.dumps({"fact": fact, **values}, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c.crc32c(text), text)


def decode(data: bytes) -> Manifest:
    """Reads a manifest. Damaged lines are counted and skipped."""
    manifest = Manifest(has_start=False)
    for _, line in lines_of(data):
        fact = fact_of(line)
        if fact is None or not _apply(manifest, fact):
            manifest.damaged_lines += 1
        if manifest.version != VERSION:
            break
    return manifest


def lines_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the position and text of each line. Text after the last line end was torn by a crash and is no line."""
    position = 0
    for line in data.split(b"\n")[:-1]:
        yield position, line
        position += len(line) + 1


def fact_of(line: bytes) -> dict[str, Any] | None:
    """Returns what the line states; None if its checksum does not match. `line` has no line end."""
    checksum, text = line[:_CHECKSUM_DIGITS], line[_CHECKSUM_DIGITS + 1 :]
    if line[_CHECKSUM_DIGITS : _CHECKSUM_DIGITS + 1] != b" " or checksum != b"%08x" % crc32c.crc32c(text):
        return None
    fact = json.loads(text)
    assert isinstance(fact, dict)
    return fact


def _apply(manifest: Manifest, fact: dict[str, Any]) -> bool:
    kind = fact.pop("fact")
    if kind == "format":
        manifest.version = fact["version"]
    elif kind == "start":
        manifest.log_start = fact["offset"]
        manifest.has_start = True
    elif kind == "epoch":
        manifest.epochs.append(EpochStart(fact["epoch"], fact["start"]))
    elif kind == "sealed":
        manifest.sealed[fact["base"]] = _facts(fact)
    elif kind == "closed":
        manifest.closed = _facts(fact)
    elif kind == "stamped":
        manifest.stamped_end = fact["offset"]
        manifest.stamped_epoch = fact.get("epoch", _ANY_EPOCH)
    elif kind == "flushed":
        manifest.flushed_end = fact["offset"]
    elif kind == "compacted":
        manifest.compactions.append(Compacted(fact["offset"], fact["at"]))
    else:
        return False
    return True


def _facts(fact: dict[str, Any]) -> SegmentFacts:
    starts, aborted = fact.get("epoch_starts"), fact.get("aborted")
    return SegmentFacts(
        **{name: fact[name] for name in _FACT_FIELDS},
        epoch_starts=tuple(EpochStart(*start) for start in starts) if starts is not None else None,
        aborted=AbortedFacts(*aborted) if aborted is not None else None,
    )
