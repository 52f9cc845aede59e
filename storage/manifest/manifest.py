"""What a replica knows of itself beyond its records: one file of facts, one checked line each, later ones win.

Lines are appended as things happen and cost no sync of their own; whatever must not be half true (a cut, a swap of
segments) replaces the whole file atomically first. A line states only what was on the disk when it was written, so that
a log opens without reading the segments that it names. A damaged line is as good as absent: its segment is scanned.
"""

import json
from collections.abc import Iterator
from typing import Any

import crc32c
from msgspec import Struct, field
from msgspec.structs import fields

from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.indexes.time_index import NO_TIMESTAMP

from .leader_epochs import EpochStart

VERSION = 1
_CHECKSUM_DIGITS = 8
_ANY_EPOCH = 2**31 - 1
"""With which it was, earlier versions did not say."""


class Compacted(Struct, frozen=True):
    """A compaction: at this time, no key had two records below this (exclusive) offset."""

    end: int
    at_ms: int


class SegmentFacts(Struct, frozen=True):
    """A segment as it lies on the disk. `docs/formats.md` says over what the checksums are taken."""

    base: int
    end: int
    """Exclusive."""
    epoch: int = NO_EPOCH
    size: int = 0
    checksum: int = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    index_entries: int = 0
    index_checksum: int = 0
    time_index_checksum: int = 0
    last_indexed_position: int = 0
    """Of the batch that got the last index entry."""
    producers_checksum: int = 0
    """Of the `.producers` file at its end; 0: no producer had a state, and there is no file; -1: it is missing."""
    epoch_starts: tuple[EpochStart, ...] | None = None
    """The epochs that began in it, where recovery has left its traces; None: its own, with it or in one before it."""


_FACT_FIELDS = tuple(each.name for each in fields(SegmentFacts) if each.name != "epoch_starts")


class Manifest(Struct):
    log_start: int = 0
    has_start: bool = True
    """A line says so; without one it is where every log begins."""
    epochs: list[EpochStart] = field(default_factory=list)
    sealed: dict[int, SegmentFacts] = field(default_factory=dict)
    """By base offset."""
    closed: SegmentFacts | None = None
    """The open segment when the log was last closed cleanly."""
    stamped_end: int = 0
    """Below this recovery has stamped leader epochs: not the batches, but `epochs` and bridges say what began there."""
    stamped_epoch: int = NO_EPOCH
    """With this one or earlier ones."""
    flushed_end: int = 0
    """Everything below was on the disk at some time: damage there is not the trace of a crash."""
    compactions: list[Compacted] = field(default_factory=list)
    damaged_lines: int = 0
    version: int = VERSION
    """Of another one nothing is known but that: its lines may say anything."""

    @property
    def tells_start(self) -> bool:
        """Whether it is to be believed that records before the log start were deleted, and are not lost."""
        return self.has_start and self.damaged_lines == 0

    @property
    def synced_end(self) -> int:
        """Up to there all was on the disk, as far as it tells."""
        closed_end = self.closed.end if self.closed is not None else 0
        return max(self.flushed_end, closed_end, *(facts.end for facts in self.sealed.values()), 0)

    @property
    def trusted_end(self) -> int:
        """Below it nothing may be missing, from the log start on. A file of records before that, which was removed, may
        be back after a power failure, and torn; if all is before that, nothing has to be there."""
        end = self.synced_end
        return end if end > self.log_start else 0


def encode(manifest: Manifest) -> bytes:
    """The whole file."""
    lines = [format_line(), start_line(manifest.log_start)]
    lines += [epoch_line(start) for start in manifest.epochs]
    lines += [sealed_line(facts) for _, facts in sorted(manifest.sealed.items())]
    lines += [compacted_line(compacted) for compacted in manifest.compactions]
    if manifest.stamped_end:
        lines.append(stamped_line(manifest.stamped_end, manifest.stamped_epoch))
    lines.append(flushed_line(manifest.flushed_end))
    if manifest.closed is not None:
        lines.append(closed_line(manifest.closed))
    if manifest.log_start:  # once more: nothing else tells it, and one of the two may be damaged
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
    return values


def flushed_line(end: int) -> bytes:
    return _line("flushed", {"offset": end})


def compacted_line(compacted: Compacted) -> bytes:
    return _line("compacted", {"offset": compacted.end, "at": compacted.at_ms})


def _line(fact: str, values: dict[str, Any]) -> bytes:
    text = json.dumps({"fact": fact, **values}, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c.crc32c(text), text)


def decode(data: bytes) -> Manifest:
    manifest = Manifest(has_start=False)
    for _, line in lines_of(data):
        fact = fact_of(line)
        if fact is None or not _apply(manifest, fact):
            manifest.damaged_lines += 1
        if manifest.version != VERSION:
            break
    return manifest


def lines_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Position and text. What follows the last line end was being written when the machine stopped: it is no line."""
    position = 0
    for line in data.split(b"\n")[:-1]:
        yield position, line
        position += len(line) + 1


def fact_of(line: bytes) -> dict[str, Any] | None:
    """What the line, without its end, states; None when its checksum does not match."""
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
    starts = fact.get("epoch_starts")
    return SegmentFacts(
        **{name: fact[name] for name in _FACT_FIELDS},
        epoch_starts=tuple(EpochStart(*start) for start in starts) if starts is not None else None,
    )
