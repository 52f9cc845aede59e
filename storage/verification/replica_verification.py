"""Verifies every byte of a replica's directory offline, from the files alone, and changes nothing.

It looks at the same things as the opening of a log, but reads everything, and reports what it finds instead of
repairing it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.files import Files
from tailrace.storage.directory.checkpoints import decode_clean_shutdown_mark
from tailrace.storage.directory.layout import (
    MANIFEST,
    Kind,
    SegmentFile,
    clean_shutdown_path,
    directories_up_to_data,
    file_name,
    parse_file_name,
    replica_of,
)
from tailrace.storage.manifest import manifest
from tailrace.storage.manifest.manifest import UNKNOWN_ABORTED, Manifest, SegmentFacts
from tailrace.storage.producers.producer_snapshots import NO_PRODUCERS, NOT_WRITTEN, checksum_of
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments.batch_scan import BatchScan
from tailrace.storage.segments.segment_summary import SegmentSummary
from tailrace.storage.transactions.aborted_transactions import decode_aborted, facts_of

from .segment_verification import Claim, Finding, SegmentVerification

_REPLAYED = "the log will be read instead"
_REREAD = "the segment will be read instead"


class ReplicaVerification:
    """The verification of one replica. Iterating over `findings` reads the files."""

    def __init__(self, files: Files, directory: str, on_bytes: Callable[[int], None] = lambda count: None) -> None:
        self.segment_count = 0
        self._files = files
        self._directory = directory
        self._on_bytes = on_bytes
        self._is_damaged = False
        self._manifest = Manifest(has_start=False)
        self._names: list[str] = []
        self._segment_files: list[SegmentFile] = []
        self._logs: dict[int, str] = {}
        """The name of the file with the batches of each segment, by base offset."""
        self._end: int | None = None
        """The end of what was read so far."""

    def findings(self) -> Iterator[Finding]:
        """Reads the files and yields what it finds."""
        # Read the manifest first: what it names was on the disk then, and the log may grow during the verification.
        steps = (
            self._check_manifest,
            self._list_segments,
            self._check_segments,
            self._check_nothing_is_missing,
            self._check_producers,
            self._check_aborted,
            self._list_leftovers,
        )
        changed: set[str] = set()
        for step in steps:
            for finding in step():
                if finding.is_damage and self._has_changed(finding.path):
                    if finding.path not in changed:
                        changed.add(finding.path)
                        yield Finding(finding.path, None, "has changed while it was verified", is_damage=False)
                    continue
                self._is_damaged = self._is_damaged or finding.is_damage
                yield finding

    def _has_changed(self, path: str) -> bool:
        """Returns whether the file was truncated, compacted or deleted since the manifest was read, by the current
        manifest."""
        manifest_path, name = self._path(MANIFEST), path.rsplit("/", 1)[-1]
        if name == MANIFEST or not self._files.exists(manifest_path):
            return False
        known, now = self._manifest, manifest.decode(self._files.read(manifest_path))
        file = parse_file_name(name)
        facts = known.sealed.get(file.offset) if file is not None else None
        if facts is not None:
            return facts.end <= now.log_start or now.sealed.get(facts.base) != facts
        was_sealed = {base: now.sealed.get(base) for base in known.sealed}
        is_cut = now.flushed_end < known.flushed_end
        return is_cut or (now.log_start, now.closed, was_sealed) != (known.log_start, known.closed, known.sealed)

    # the manifest

    def _check_manifest(self) -> Iterator[Finding]:
        path = self._path(MANIFEST)
        if not self._files.exists(path):
            return
        data = self._files.read(path)
        found = manifest.decode(data)
        if found.version != manifest.VERSION:
            yield Finding(
                path,
                0,
                f"its format version is {found.version}, and this Tailrace knows only {manifest.VERSION}",
                is_damage=True,
            )
            return
        self._manifest = found
        for number, (position, line) in enumerate(manifest.lines_of(data) if self._manifest.damaged_lines else (), 1):
            if manifest.fact_of(line) is None:
                yield Finding(path, position, f"the checksum of line {number} does not match", is_damage=True)
            elif manifest.decode(line + b"\n").damaged_lines:
                yield Finding(path, position, f"line {number} is of an unknown kind", is_damage=True)
        whole = data.rfind(b"\n") + 1
        rest = data[whole:]
        if rest and manifest.fact_of(rest[:-1]) is not None:
            yield Finding(path, len(data) - 1, "the last line has a wrong end", is_damage=True)
        elif rest:
            yield Finding(path, whole, "the last line is unfinished and will be truncated", is_damage=False)

    # the segments

    def _list_segments(self) -> Iterator[Finding]:
        self._names = self._files.list(self._directory)
        files = self._segment_files = [file for name in self._names if (file := parse_file_name(name)) is not None]
        self._logs = {file.offset: file_name(file.offset, file.kind) for file in files if file.kind is Kind.LOG}
        for file in files:
            if file.kind is not Kind.CLEANED_LOG:
                continue
            name = file_name(file.offset, file.kind)
            facts = self._manifest.sealed.get(file.offset)
            with suppress(FileNotFoundError):  # it may have taken its place just now
                if facts is not None and self._holds(name, facts):
                    self._logs[file.offset] = name
                    yield self._note(name, "will take its place, as its compaction had decided")
                else:
                    yield self._note(name, "comes from an unfinished compaction")
        self._logs = dict(sorted(self._logs.items()))
        if self._logs and MANIFEST not in self._names:
            if self._was_closed():
                yield self._damage(MANIFEST, "is missing, though the log was closed cleanly")
            else:
                yield self._note(MANIFEST, "is missing, as it is before a new log is first synced")

        first = min(self._logs, default=0)
        if first > self._manifest.log_start and not self._manifest.is_start_certain:
            yield self._damage(MANIFEST, f"does not say whether the records before offset {first} are deleted or lost")

    def _was_closed(self) -> bool:
        replica = replica_of(self._directory)
        mark = clean_shutdown_path(directories_up_to_data(self._directory)[-1])
        if replica is None or not self._files.exists(mark):
            return False
        return replica in (decode_clean_shutdown_mark(self._files.read(mark)) or ())

    def _holds(self, name: str, facts: SegmentFacts) -> bool:
        path = self._path(name)
        if self._files.size(path) != facts.size:
            return False
        summary = SegmentSummary(facts.base)
        for batch in BatchScan(self._files.open(path), facts.size):
            summary.add(batch.start, batch.header)
        return (summary.size, summary.checksum) == (facts.size, facts.checksum)

    def _check_segments(self) -> Iterator[Finding]:
        known, trusted_end = self._manifest, self._manifest.trusted_end
        epoch: int = NO_EPOCH
        was_sealed = was_stamped = False
        for base, name in self._logs.items():
            if self._end is not None and base < self._end:
                if was_sealed or base >= trusted_end:
                    yield self._note(name, "will be removed: the segment before it took its place")
                    continue
                yield self._damage(name, f"begins within the segment before it, which ends at offset {self._end}")
            needed = max(known.log_start, self._end or 0)
            if base > needed and needed < trusted_end:
                yield self._damage("", f"the segment at offset {needed} is missing; the next begins at offset {base}")
            elif base > needed:
                yield self._note(name, f"will be removed: offset {needed}, before it, never reached the disk")
            facts, was_sealed = known.sealed.get(base), base in known.sealed
            if facts is None and known.closed is not None and known.closed.base == base:
                facts = known.closed
            claim = Claim(base, facts, is_sealed=was_sealed, trusted_end=trusted_end)
            segment = SegmentVerification(self._files, self._path(name), claim, self._on_bytes)
            yield from segment.findings()
            self.segment_count += 1
            self._end = segment.end
            if segment.epoch != NO_EPOCH and not segment.is_damaged:
                # Below `stamped_end`, batches may have been stamped in the log that this one replicates.
                is_expected = base < known.stamped_end and segment.epoch <= known.stamped_epoch
                is_stamped = facts is None or facts.epoch_starts is not None or is_expected
                if segment.epoch < epoch:
                    sentence = f"is of leader epoch {segment.epoch}, after one of epoch {epoch}"
                    # A crash may have stopped recovery while it was stamping.
                    yield Finding(self._path(name), None, sentence, is_damage=not (is_stamped or was_stamped))
                for sentence in self._epochs_that_began_before(segment.epoch, segment.end):
                    yield Finding(self._path(name), None, sentence, is_damage=not is_stamped)
                epoch, was_stamped = segment.epoch, is_stamped
            if segment.end <= known.log_start and base != max(self._logs):
                yield self._note(name, "holds deleted records only and will be removed")

    def _epochs_that_began_before(self, epoch: int, end: int) -> Iterator[str]:
        for start in self._manifest.epochs:
            # A newer epoch is fine: the manifest is not rewritten when a crash has shortened the log.
            if start.start < end and epoch < start.epoch:
                yield f"is of leader epoch {epoch}; the manifest says that {start.epoch} began at {start.start}"

    def _check_nothing_is_missing(self) -> Iterator[Finding]:
        known = self._manifest
        stated = dict(known.sealed)
        if known.closed is not None and known.closed.size:
            stated.setdefault(known.closed.base, known.closed)
        missing = [base for base, facts in stated.items() if facts.end > known.log_start and base not in self._logs]
        for base in sorted(missing):
            yield self._damage(file_name(base, Kind.LOG), "is missing")
        end = max(known.log_start, self._end or 0)
        if not self._is_damaged and end < self._manifest.trusted_end:
            yield self._damage(
                "", f"the log ends at offset {end}; everything below {self._manifest.trusted_end} was there"
            )

    # what is beside the segments

    def _check_producers(self) -> Iterator[Finding]:
        stated = {
            facts.end: facts.producers_checksum
            for facts in self._believed_facts()
            if facts.producers_checksum not in (NO_PRODUCERS, NOT_WRITTEN) and facts.base in self._logs
        }
        for file in self._segment_files:
            if file.kind is not Kind.PRODUCERS:
                continue
            name = file_name(file.offset, file.kind)
            try:
                snapshot = self._files.read(self._path(name))
            except FileNotFoundError:
                continue  # removed meanwhile
            checksum = stated.pop(file.offset, None)
            if snapshot and ProducerStates.restore(snapshot) is None:
                yield self._damage(name, f"its checksum does not match; {_REPLAYED}")
            elif checksum not in (None, checksum_of(snapshot)):
                # Snapshots are not synced, so an older one may be there after a crash.
                yield self._note(name, f"is not the one that the manifest names; {_REPLAYED}")
        for end in sorted(stated):
            yield self._note(file_name(end, Kind.PRODUCERS), f"is missing; {_REPLAYED}")

    def _check_aborted(self) -> Iterator[Finding]:
        for facts in self._believed_facts():
            stated = facts.aborted
            if stated in (None, UNKNOWN_ABORTED) or facts.base not in self._logs:
                continue
            name = file_name(facts.base, Kind.ABORTED)
            try:
                found = decode_aborted(self._files.read(self._path(name)))
            except FileNotFoundError:
                found = None
            if stated is not None and stated.foretold and (found is None or facts_of(found) != stated):
                yield self._damage(name, "is not the one that the manifest names, and nothing else tells what it told")
            elif not self._files.exists(self._path(name)):
                yield self._note(name, f"is missing; {_REREAD}")
            elif found is None or facts_of(found) != stated:
                # The file is not synced, so an older or a torn one may be there after a crash.
                yield self._note(name, f"is not the one that the manifest names; {_REREAD}")

    def _believed_facts(self) -> Iterator[SegmentFacts]:
        """Yields the facts about segments that should be as they were when the facts were written."""
        yield from self._manifest.sealed.values()
        closed = self._manifest.closed
        if closed is not None and closed.end == self._end:
            yield closed

    def _list_leftovers(self) -> Iterator[Finding]:
        for file in self._segment_files:
            if file.kind in (Kind.INDEX, Kind.TIME_INDEX, Kind.ABORTED) and file.offset not in self._logs:
                yield self._note(file_name(file.offset, file.kind), "belongs to no segment and will be removed")
        ours = {MANIFEST, *(file_name(file.offset, file.kind) for file in self._segment_files)}
        for name in self._names:
            if name not in ours:
                yield self._note(
                    name, "is an unfinished manifest" if name == f"{MANIFEST}.new" else "does not belong to a log"
                )

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}" if name else self._directory

    def _note(self, name: str, sentence: str) -> Finding:
        return Finding(self._path(name), None, sentence, is_damage=False)

    def _damage(self, name: str, sentence: str) -> Finding:
        return Finding(self._path(name), None, sentence, is_damage=True)
