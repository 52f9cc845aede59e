"""Decides what is wrong with the copies of a partition, from their batches in the order of offsets.

Nothing here reads files. `RangeComparison` merges the batches of all copies of one range of offsets. It remembers one
batch of each copy, so a range may have any size. What one range cannot decide, because bridges may lie in another one,
`recovery_verdicts` decides for the whole partition.

These rules hold for healthy copies, below the high watermark of each:

- A batch has the same offsets in all copies, and an offset has the same batch.
- The checksum of a batch is the same, unless compaction has removed records from one of the two. Then the records that
  both have are the same bytes.
- Only compaction leaves gaps, only in sealed segments, and it never removes what a recovery wrote. It removes markers
  of transactions.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field

from tailrace.protocol.batches.keyed_records import keyed_records
from tailrace.protocol.batches.record_batch import COMPRESSION_MASK, TRANSACTIONAL, BatchHeader
from tailrace.protocol.batches.records import open_body
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import NO_EPOCH

FINDINGS_MAX = 20
"""How many findings of one kind a range reports for a copy. The others are counted."""
_RUNS_MAX = 1000


class Verdict(StrEnum):
    """What is true of a copy, or of a partition. The worst one comes first."""

    ROTTEN = "rotten"
    """Stored bytes do not match their checksum."""
    DIVERGED = "diverged"
    """Other records, offsets or epochs than in the other copies."""
    MISSING = "missing"
    """Committed records, or a whole copy, are not there."""
    HOLE = "hole outside a recovery"
    BRIDGE = "missing bridge"
    EQUAL = "equal"


WORST_FIRST = tuple(Verdict)


def worst(verdicts: Iterator[Verdict]) -> Verdict:
    """Returns the worst of the verdicts; EQUAL if there is none."""
    return min(verdicts, key=WORST_FIRST.index, default=Verdict.EQUAL)


class Finding(Struct, frozen=True):
    """What is wrong with one copy, in a range of offsets."""

    copy: int
    """The number of the copy."""
    verdict: Verdict
    first: int
    last: int
    """The last offset of the range."""
    sentence: str


class CopyBounds(Struct, frozen=True):
    """What is compared of a copy, and what its manifest says about it."""

    start: int
    """The log start."""
    end: int
    """The high watermark."""
    compares_epochs: bool = True
    """Whether its epochs are compared. A shelf may keep other epochs than replicas."""
    epoch_starts: tuple[tuple[int, int], ...] = ()
    """The epochs that the manifest names, each with the offset at which it began."""


class EntryKind(StrEnum):
    EVENT = "event"
    HOLE = "hole"
    BRIDGE = "bridge"
    MARKER = "marker"


_COMPACTED = (EntryKind.EVENT, EntryKind.MARKER)
"""The kinds of batches that compaction may remove, or leave without records."""


class StoredBatch(Struct, gc=False):
    """A batch of one copy."""

    header: BatchHeader
    kind: EntryKind = EntryKind.EVENT
    named_epoch: int = NO_EPOCH
    """The epoch that a bridge names."""
    is_sound: bool = True
    """Whether the batch matches its checksum."""
    content: Buffer = b""
    """The bytes of the batch; empty if only its header was read."""


class Unreadable(Struct, frozen=True):
    """Offsets from `first` up to `end` that a copy cannot show. It is reported elsewhere."""

    first: int
    end: int
    is_missing: bool = False
    """Whether the bytes are not there, so that bridges in the range are missing, too."""


Item = StoredBatch | Unreadable


class Bridge(Struct, frozen=True):
    """A bridge that a copy has."""

    offset: int
    epoch: int
    """The epoch that it names."""


class Hole(Struct, frozen=True):
    """A hole that some copies have."""

    first: int
    last: int
    epoch: int
    """The smallest epoch that is stamped on the hole."""
    copies: tuple[int, ...]


class EpochDifference(Struct, frozen=True):
    """A range of batches that have other epochs in some copies."""

    first: int
    last: int
    epochs: tuple[tuple[int, int], ...]
    """The number and the epoch of each copy."""


class EpochFall(Struct, frozen=True):
    """Two neighbouring batches of a copy. The second one has a smaller epoch."""

    copy: int
    before: int
    """The last offset of the first batch."""
    epoch_before: int
    offset: int
    epoch: int


class RangeFacts(Struct):
    """What a range of offsets shows about the copies of a partition."""

    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0
    """The number of findings beyond FINDINGS_MAX."""
    bridges: list[Bridge] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    differences: list[EpochDifference] = field(default_factory=list)
    falls: list[EpochFall] = field(default_factory=list)
    has_compacted: bool = False
    """Whether a batch has fewer records than offsets, as after compaction."""
    batches: list[int] = field(default_factory=list)
    """The number of batches of each copy that were compared."""
    records: list[int] = field(default_factory=list)


class _Copy(Struct):
    """What is remembered of a copy."""

    bounds: CopyBounds
    head: StoredBatch | None = None
    reached: int = 0
    """The end of the last batch that was seen."""
    unreadable_end: int = 0
    missing_end: int = 0
    epoch: int = NO_EPOCH
    """The epoch of the last batch."""
    is_start_known: int = 0
    """How many epoch starts of the manifest were passed."""
    runs: dict[Verdict, int] = field(default_factory=dict)
    """The finding of each kind that goes on if the next batch has it, too."""
    counts: dict[Verdict, int] = field(default_factory=dict)


class RangeComparison:
    """Compares the copies in one range of offsets. Batches belong to the range in which they begin."""

    def __init__(self, copies: Sequence[CopyBounds], start: int, end: int, gaps_end: int = 0) -> None:
        """`gaps_end`: the offset below which a gap may come from compaction."""
        self.facts = RangeFacts(batches=[0] * len(copies), records=[0] * len(copies))
        self._copies = [_Copy(bounds) for bounds in copies]
        self._start = start
        self._end = end
        self._gaps_end = gaps_end
        self._reached = max(start, min((bounds.start for bounds in copies), default=0))
        """The end of the last batch that any copy has."""

    def compare(self, streams: Sequence[Iterator[Item]]) -> RangeFacts:
        """Compares the batches, which each stream yields in the order of offsets."""
        for number in range(len(streams)):
            self._advance(number, streams)
        copies = self._copies
        while True:
            base = min((copy.head.header.base_offset for copy in copies if copy.head is not None), default=None)
            if base is None:
                break
            present = [
                number
                for number, copy in enumerate(copies)
                if copy.head is not None and copy.head.header.base_offset == base
            ]
            group = {number: head for number in present if (head := copies[number].head) is not None}
            if base >= self._start:
                self._on_group(base, group)
            for number, batch in group.items():
                copies[number].reached = batch.header.next_offset
                copies[number].epoch = batch.header.leader_epoch
                self._reached = max(self._reached, batch.header.next_offset)
                self._advance(number, streams)
        self._on_gap(self._end)
        for number, copy in enumerate(copies):
            self._pass_epoch_starts(number, min(self._end, copy.bounds.end), None)
        return self.facts

    def _advance(self, number: int, streams: Sequence[Iterator[Item]]) -> None:
        copy = self._copies[number]
        while isinstance(item := next(streams[number], None), Unreadable):
            copy.unreadable_end = max(copy.unreadable_end, item.end)
            if item.is_missing:
                copy.missing_end = max(copy.missing_end, item.end)
        copy.head = item

    # one offset

    def _on_group(self, base: int, group: Mapping[int, StoredBatch]) -> None:
        """Compares the batches that begin at this offset."""
        self._on_gap(base)
        facts = self.facts
        compared: dict[int, StoredBatch] = {}
        for number, batch in group.items():
            copy, header = self._copies[number], batch.header
            self._pass_epoch_starts(number, base, header)
            if not _covers(copy.bounds, header):
                continue
            if not batch.is_sound:
                self._report(
                    number, Verdict.ROTTEN, base, header.last_offset,
                    f"the checksum of the batch at offset {base} is wrong",
                )  # fmt: skip
                continue
            compared[number] = batch
            facts.batches[number] += 1
            facts.records[number] += header.record_count
            is_compacted = batch.kind in _COMPACTED and header.record_count < header.last_offset_delta + 1
            facts.has_compacted = facts.has_compacted or is_compacted
            if copy.bounds.compares_epochs and header.leader_epoch < copy.epoch:
                fall = EpochFall(number, copy.reached - 1, copy.epoch, base, header.leader_epoch)
                if len(facts.falls) < _RUNS_MAX:
                    facts.falls.append(fall)
        if not compared:
            return
        wrong = self._differing(compared)
        example = next((batch for number, batch in compared.items() if number not in wrong), None)
        example = next(iter(compared.values())) if example is None else example
        self._on_absent(base, group, compared, example, wrong)
        for number, sentence in wrong.items():
            self._report(number, Verdict.DIVERGED, base, compared[number].header.last_offset, sentence)
        for number in compared:
            if number not in wrong:
                self._copies[number].runs.clear()
        self._note_control(base, compared)
        self._compare_epochs(compared)

    def _differing(self, compared: Mapping[int, StoredBatch]) -> dict[int, str]:
        """Returns the copies whose batch is not the one of most copies; all of them if none is more frequent."""
        if len({(batch.header.crc, batch.header.last_offset) for batch in compared.values()}) == 1:
            return {}
        groups: list[list[int]] = []
        # The batch with the most records comes first, because it can be compared with each of the others.
        for number in sorted(compared, key=lambda each: -compared[each].header.record_count):
            for each in groups:
                if _agree(compared[each[0]], compared[number]):
                    each.append(number)
                    break
            else:
                groups.append([number])
        if len(groups) == 1:
            return {}
        groups.sort(key=len, reverse=True)
        is_tie = len(groups[0]) == len(groups[1])
        return {
            number: self._difference(compared[number].header, groups, group)
            for group in (groups if is_tie else groups[1:])
            for number in group
        }

    def _difference(self, header: BatchHeader, groups: Sequence[Sequence[int]], own: Sequence[int]) -> str:
        others = sorted(number for group in groups if group is not own for number in group)
        return f"the batch at offset {header.base_offset} is another one than in {_copies_text(others)}"

    def _on_absent(
        self,
        base: int,
        group: Mapping[int, StoredBatch],
        compared: Mapping[int, StoredBatch],
        example: StoredBatch,
        wrong: dict[int, str],
    ) -> None:
        """Reports the copies that should have a batch at this offset and have none."""
        header = example.header
        spanning: list[int] = []
        absent: list[int] = []
        for number, copy in enumerate(self._copies):
            if number in group or not _covers(copy.bounds, header):
                continue
            if base < copy.unreadable_end and not (example.kind is EntryKind.BRIDGE and base < copy.missing_end):
                continue
            (spanning if copy.reached > base else absent).append(number)
        if spanning:
            # Batches never change their offsets, so one side is wrong: the one with fewer copies, or both.
            sentence = f"a batch begins at offset {base} in %s and not in %s"
            text = sentence % (_copies_text(sorted(compared)), _copies_text(spanning))
            if len(spanning) <= len(compared):
                for number in spanning:
                    self._report(number, Verdict.DIVERGED, base, header.last_offset, text)
            if len(spanning) >= len(compared):
                wrong.update(dict.fromkeys(compared, text))
        for number in absent:
            if example.kind is EntryKind.BRIDGE:
                self._report(
                    number, Verdict.BRIDGE, base, header.last_offset,
                    f"there is no bridge at offset {base}, with which epoch {example.named_epoch} begins in "
                    f"{_copies_text(sorted(compared))}",
                )  # fmt: skip
            elif example.kind not in _COMPACTED or base >= self._gaps_end:
                self._report(
                    number, Verdict.MISSING, base, header.last_offset,
                    f"has nothing at offset {base}, which is in {_copies_text(sorted(compared))}",
                )  # fmt: skip

    def _on_gap(self, base: int) -> None:
        """Reports offsets before `base` that no copy has, unless compaction may have removed them."""
        first = max(self._reached, self._gaps_end)
        for number, copy in enumerate(self._copies) if first < base else ():
            start, end = max(first, copy.bounds.start), min(base, copy.bounds.end)
            if start < end and start >= copy.unreadable_end:
                self._report(number, Verdict.MISSING, start, end - 1, f"offsets {start} to {end - 1} are in no copy")

    def _note_control(self, base: int, compared: Mapping[int, StoredBatch]) -> None:
        facts = self.facts
        for batch in compared.values():
            if batch.kind is EntryKind.BRIDGE and len(facts.bridges) < _RUNS_MAX:
                bridge = Bridge(base, batch.named_epoch)
                if bridge not in facts.bridges[-len(compared) :]:
                    facts.bridges.append(bridge)
        holes = {number: batch for number, batch in compared.items() if batch.kind is EntryKind.HOLE}
        if holes and len(facts.holes) < _RUNS_MAX:
            last = max(batch.header.last_offset for batch in holes.values())
            epoch = min(batch.header.leader_epoch for batch in holes.values())
            facts.holes.append(Hole(base, last, epoch, tuple(holes)))

    def _compare_epochs(self, compared: Mapping[int, StoredBatch]) -> None:
        epochs = {
            number: int(batch.header.leader_epoch)
            for number, batch in compared.items()
            if self._copies[number].bounds.compares_epochs
        }
        if len(set(epochs.values())) < 2:
            return
        differences, header = self.facts.differences, next(iter(compared.values())).header
        found = EpochDifference(header.base_offset, header.last_offset, tuple(sorted(epochs.items())))
        before = differences[-1] if differences else None
        if before is not None and before.epochs == found.epochs and before.last + 1 >= found.first:
            differences[-1] = EpochDifference(before.first, found.last, found.epochs)
        elif len(differences) < _RUNS_MAX:
            differences.append(found)
        else:
            self.facts.unlisted += 1

    def _pass_epoch_starts(self, number: int, base: int, header: BatchHeader | None) -> None:
        """Checks the epoch starts of the manifest up to the batch that begins at `base`.

        A batch before the start that has the epoch already was recovered. So a bridge begins the epoch, and compaction
        never removes it.
        """
        copy = self._copies[number]
        starts = copy.bounds.epoch_starts
        while copy.is_start_known < len(starts):
            epoch, offset = starts[copy.is_start_known]
            if offset >= base:
                if header is not None and offset <= header.last_offset:
                    copy.is_start_known += 1
                    continue
                return
            copy.is_start_known += 1
            is_gap = offset >= max(copy.reached, copy.unreadable_end, self._start, copy.bounds.start)
            if is_gap and copy.epoch >= epoch and offset < copy.bounds.end:
                sentence = f"there is no bridge at offset {offset}, where epoch {epoch} begins after a recovery"
                self._report(number, Verdict.BRIDGE, offset, offset, sentence)

    def _report(self, number: int, verdict: Verdict, first: int, last: int, sentence: str) -> None:
        """Adds a finding, or extends the one of the batch before."""
        copy, findings = self._copies[number], self.facts.findings
        at = copy.runs.get(verdict)
        if at is not None and verdict is not Verdict.BRIDGE:
            before = findings[at]
            findings[at] = Finding(number, verdict, before.first, max(before.last, last), before.sentence)
            return
        if copy.counts.get(verdict, 0) >= FINDINGS_MAX:
            self.facts.unlisted += 1
            return
        copy.counts[verdict] = copy.counts.get(verdict, 0) + 1
        copy.runs[verdict] = len(findings)
        findings.append(Finding(number, verdict, first, last, sentence))


def _covers(bounds: CopyBounds, header: BatchHeader) -> bool:
    """Returns whether the copy has the whole batch, and knows that it is committed."""
    return bounds.start <= header.last_offset < bounds.end


def _copies_text(numbers: Sequence[int]) -> str:
    """Returns copies as texts that `named` replaces by their names."""
    return " and ".join(f"{{copy {number}}}" for number in numbers)


def named(sentence: str, names: Sequence[str]) -> str:
    """Puts the names of copies into the sentence of a finding."""
    for number, name in enumerate(names):
        sentence = sentence.replace(f"{{copy {number}}}", name)
    return sentence


def _agree(one: StoredBatch, other: StoredBatch) -> bool:
    """Returns whether two batches at the same offset are the same, except for what compaction has removed."""
    a, b = one.header, other.header
    if a.last_offset != b.last_offset or one.kind is not other.kind:
        return False
    if a.crc == b.crc:
        return True
    count = a.last_offset_delta + 1
    if one.kind not in _COMPACTED or (a.record_count >= count and b.record_count >= count):
        return False
    if _fixed(a) != _fixed(b):
        return False
    if not a.record_count or not b.record_count or not one.content or not other.content:
        return True
    if (a.attributes ^ b.attributes) & COMPRESSION_MASK:
        return False
    try:
        mine, theirs = _records(one), _records(other)
    except KafkaError:
        return False
    return all(theirs[delta] == content for delta, content in mine.items() if delta in theirs)


def _fixed(header: BatchHeader) -> tuple[int, ...]:
    """Returns what compaction never changes. A batch that it has emptied is part of no transaction any more."""
    return (
        header.attributes & ~(COMPRESSION_MASK | TRANSACTIONAL), header.base_timestamp, header.producer_id,
        header.producer_epoch, header.base_sequence,
    )  # fmt: skip


def _records(batch: StoredBatch) -> dict[int, bytes]:
    body = open_body(batch.content, batch.header)
    return {each.offset_delta: body[each.start : each.end] for each in keyed_records(body, batch.header.record_count)}
