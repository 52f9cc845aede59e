"""Verifies one segment completely, its `.log` and its two indexes, and reports what is not as it was written.

What the manifest states about a segment covers every bit of it. A segment that the manifest does not cover yet is
checked against itself: checksums of batches, offsets, a single leader epoch. Its end may be torn, which is no damage:
see the rule in `segment_recovery`.
"""

from array import array
from collections.abc import Callable, Iterator

import crc32c
from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import NO_EPOCH
from tailrace.runtime.files import File, Files
from tailrace.storage.directory.layout import CLEANED_SUFFIX, Kind, file_name
from tailrace.storage.indexes import offset_index
from tailrace.storage.indexes.offset_index import ENTRY_BYTES
from tailrace.storage.manifest.manifest import SegmentFacts
from tailrace.storage.segments.batch_scan import BatchScan, ScannedBatch
from tailrace.storage.segments.segment_summary import SegmentSummary

_PIECE_BYTES = 2**16
_REBUILT = "it will be rebuilt from the log"


class Finding(Struct, frozen=True):
    """One thing that the verification found."""

    path: str
    position: int | None
    """The position in the file; None if it is unknown."""
    sentence: str
    is_damage: bool
    """Whether this is damage. Otherwise it is a note: something that a crash leaves, or that the next opening tidies
    up."""


class Claim(Struct, frozen=True):
    """What is known about a segment before it is read."""

    base: int
    facts: SegmentFacts | None
    """The facts about the whole segment if it is sealed, otherwise about its beginning as of the last clean close."""
    is_sealed: bool
    trusted_end: int
    """The offset below which all records were on the disk, so that a crash does not explain damage."""


class SegmentVerification:
    """The verification of one segment.

    Iterating over `findings` reads the files; afterwards the attributes tell the result.
    """

    def __init__(self, files: Files, log_path: str, claim: Claim, on_bytes: Callable[[int], None]) -> None:
        self.is_damaged = False
        self.end = claim.base
        """The offset after the last record; after damage, as far as it is known."""
        self.epoch: int = NO_EPOCH
        self._files = files
        self._path = log_path
        self._claim = claim
        self._on_bytes = on_bytes
        self._summary = SegmentSummary(claim.base)
        self._batch_after_gap: ScannedBatch | None = None
        self._other_epoch: tuple[int, str] | None = None
        """The first batch with another leader epoch than the segment's: wrong, if anything turns out to be."""
        self._covered_bytes = claim.facts.size if claim.facts is not None else 0
        self._was_compared = self._covered_bytes == 0

    def findings(self) -> Iterator[Finding]:
        try:
            file = self._files.open(self._path)
            size = file.size()
        except OSError as error:
            yield self._damage(None, f"cannot be opened: {error.strerror or error}")
            return
        facts, claim = self._claim.facts, self._claim
        index = _IndexVerification(
            self._files,
            self._path.rsplit("/", 1)[0],
            claim.base,
            facts if self._states_index(size) else None,
        )
        if size < self._covered_bytes or (claim.is_sealed and size > self._covered_bytes):
            then = "sealed" if claim.is_sealed else "closed"
            yield self._damage(
                min(size, self._covered_bytes), f"has {size} bytes; when it was {then} it had {self._covered_bytes}"
            )
        scan = BatchScan(file, size)
        torn = None
        for batch in scan:
            self._on_bytes(batch.header.size)
            reason = self._refuses(batch)
            if reason is not None:
                if not self._must_be_whole(batch.position):
                    torn = Finding(self._path, batch.position, _torn(size - batch.position, reason), is_damage=False)
                    break
                yield self._damage(*self._place(batch, reason))
            elif batch.header.base_offset > self._summary.end and not batch.position < self._covered_bytes:
                yield Finding(
                    self._path,
                    batch.position,
                    f"offset {batch.header.base_offset} follows {self._summary.end - 1}: the offsets between are"
                    " missing, which is normal after compaction",
                    is_damage=False,
                )
            elif batch.header.leader_epoch < self._summary.epoch and batch.position >= self._covered_bytes:
                sentence = f"leader epoch {batch.header.leader_epoch} follows {self._summary.epoch}"
                yield Finding(
                    self._path,
                    batch.position,
                    f"{sentence}, as after a recovery that a crash interrupted",
                    is_damage=False,
                )
            self._add(batch, index)
            if self._summary.size == self._covered_bytes:
                yield from self._compare()
        if scan.failure is not None:
            if scan.is_unreadable or self._must_be_whole(scan.position):
                yield self._damage(scan.position, scan.failure)
            else:
                torn = Finding(self._path, scan.position, _torn(size - scan.position, scan.failure), is_damage=False)
        if torn is not None:
            yield torn
        if not self._was_compared and not self.is_damaged:
            yield self._damage(self._covered_bytes, "no batch ends where one ended when the manifest was written")
        self.end = self._summary.end
        self.epoch = self._summary.epoch
        if facts is not None and (self.is_damaged or claim.is_sealed):
            self.end, self.epoch = max(facts.end, 0 if claim.is_sealed else self.end), facts.epoch
        yield from index.findings(log_is_sound=not self.is_damaged and torn is None)

    def _states_index(self, size: int) -> bool:
        """Returns whether the manifest describes the current index files."""
        if self._path.endswith(CLEANED_SUFFIX):
            return False
        # An index that grew after the log was closed may have been rebuilt differently.
        return self._claim.is_sealed or size == self._covered_bytes

    def _refuses(self, batch: ScannedBatch) -> str | None:
        header, facts = batch.header, self._claim.facts
        if (
            self._other_epoch is None
            and facts is not None
            and (facts.epoch_starts is None and header.leader_epoch != facts.epoch)
        ):
            self._other_epoch = (
                batch.position,
                f"leader epoch {header.leader_epoch} in a segment of epoch {facts.epoch}",
            )
        if not batch.checksum_matches:
            return f"the checksum of the batch at offset {header.base_offset} does not match"
        return self._summary.refuses(header)

    def _place(self, batch: ScannedBatch, reason: str) -> tuple[int, str]:
        """Decides which of two batches is wrong if their offsets are out of order: the first may have a corrupt
        offset."""
        before = self._batch_after_gap
        if before is not None and batch.checksum_matches and batch.header.base_offset < self._summary.end:
            self._batch_after_gap = None
            return before.position, f"offset {before.header.base_offset} comes before offset {batch.header.base_offset}"
        return batch.position, reason

    def _must_be_whole(self, position: int) -> bool:
        return position < self._covered_bytes or self._summary.end < self._claim.trusted_end

    def _add(self, batch: ScannedBatch, index: "_IndexVerification") -> None:
        header, summary = batch.header, self._summary
        self._batch_after_gap = batch if header.base_offset > summary.end else None
        index.on_batch(header, batch.position, summary.max_timestamp)
        summary.add(batch.start, header)

    def _compare(self) -> Iterator[Finding]:
        """Compares the segment with the manifest. Does nothing if something was found before."""
        self._was_compared = True
        facts, summary = self._claim.facts, self._summary
        if facts is None or self.is_damaged:
            return
        for name in ("end", "epoch", "checksum", "first_timestamp", "max_timestamp"):
            found, stated = getattr(summary, name), getattr(facts, name)
            if found != stated and self._other_epoch is not None and name in ("epoch", "checksum"):
                yield self._damage(*self._other_epoch)
                return
            if found != stated:
                leaping = self._batch_after_gap
                yield self._damage(
                    leaping.position if leaping is not None else None,
                    f"its {name.replace('_', ' ')} is {found}; the manifest says {stated}",
                )
                return

    def _damage(self, position: int | None, sentence: str) -> Finding:
        self.is_damaged = True
        return Finding(self._path, position, sentence, is_damage=True)


def _torn(byte_count: int, reason: str) -> str:
    return f"the last {byte_count} bytes will be truncated when the log is opened, as after a crash: {reason}"


class _IndexVerification:
    """Reads both index files in parallel with the log."""

    def __init__(self, files: Files, directory: str, base: int, facts: SegmentFacts | None) -> None:
        self._base = base
        self._facts = facts
        self._offsets = _EntryFile(files, f"{directory}/{file_name(base, Kind.INDEX)}", "Q")
        self._times = _EntryFile(files, f"{directory}/{file_name(base, Kind.TIME_INDEX)}", "q")

    def on_batch(self, header: BatchHeader, position: int, max_timestamp_before: int) -> None:
        offsets, times = self._offsets, self._times
        if offsets.wrong is not None or offsets.entry is None or offset_index.position_of(offsets.entry) > position:
            return
        if offsets.entry != offset_index.entry(header.base_offset - self._base, position):
            offsets.wrong = offsets.number
            return
        if times.wrong is None and times.entry is not None and times.entry != max_timestamp_before:
            times.wrong = times.number
        offsets.advance()
        times.advance()

    def findings(self, *, log_is_sound: bool) -> Iterator[Finding]:
        facts, offsets, times = self._facts, self._offsets, self._times
        if log_is_sound and offsets.wrong is None and offsets.entry is not None:
            offsets.wrong = offsets.number
        for file in (offsets, times):
            file.finish()
            if facts is None:
                yield from self._of_unstated(file, log_is_sound=log_is_sound)
            else:
                checksum = facts.index_checksum if file is offsets else facts.time_index_checksum
                yield from self._of_stated(file, facts.index_entries, checksum, log_is_sound=log_is_sound)

    def _of_stated(self, file: "_EntryFile", count: int, checksum: int, *, log_is_sound: bool) -> Iterator[Finding]:
        """Verifies an index that the manifest describes.

        A crash may leave an unsynced index with another size, but not with other bytes.
        """
        size = count * ENTRY_BYTES
        wrong = file.wrong if log_is_sound else None
        if file.failure is not None:
            yield Finding(file.path, None, f"{file.failure}; {_REBUILT}", is_damage=True)
        elif file.size != size:
            sentence = f"has {file.size} bytes instead of {size}" if file.exists else "is missing"
            yield Finding(file.path, None, f"{sentence}, as after a crash; {_REBUILT}", is_damage=False)
        elif wrong is not None:
            sentence = f"entry {wrong} does not agree with the log; {_REBUILT}"
            yield Finding(file.path, wrong * ENTRY_BYTES, sentence, is_damage=True)
        elif file.checksum != checksum:
            yield Finding(file.path, None, f"is damaged; {_REBUILT}", is_damage=True)

    def _of_unstated(self, file: "_EntryFile", *, log_is_sound: bool) -> Iterator[Finding]:
        """Verifies an index that the manifest does not describe. The next opening will rebuild it anyway."""
        if log_is_sound and file.wrong is not None:
            sentence = f"entry {file.wrong} does not agree with the log; {_REBUILT}"
            yield Finding(file.path, file.wrong * ENTRY_BYTES, sentence, is_damage=False)


class _EntryFile:
    """Reads the entries of one index file one by one."""

    def __init__(self, files: Files, path: str, typecode: str) -> None:
        self.path = path
        self.exists = True
        self.failure: str | None = None
        self.size = 0
        self.checksum = 0
        self.wrong: int | None = None
        """The number of the first entry that does not agree with the log."""
        self.number = -1
        self.entry: int | None = None
        self._typecode = typecode
        self._entries: Iterator[int] = iter(())
        try:
            file = files.open(path)
            self.size = file.size()
            self._entries = self._read(file)
        except FileNotFoundError:
            self.exists = False
        except OSError as error:
            self.failure = f"cannot be opened: {error.strerror or error}"
        self.advance()

    def advance(self) -> None:
        self.entry = next(self._entries, None)
        self.number += 1

    def finish(self) -> None:
        """Reads the remaining entries, for the checksum."""
        for _ in self._entries:
            pass

    def _read(self, file: File) -> Iterator[int]:
        for position in range(0, self.size, _PIECE_BYTES):
            try:
                piece = file.read_at(position, _PIECE_BYTES)
            except OSError as error:
                self.failure = f"cannot be read: {error.strerror or error}"
                return
            self.checksum = crc32c.crc32c(piece, self.checksum)
            yield from array(self._typecode, piece[: len(piece) // ENTRY_BYTES * ENTRY_BYTES])
