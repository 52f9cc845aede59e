"""Opens a replica's directory: trusts what is known to be intact, recovers the rest, and removes leftovers.

The numbers of the steps are those of docs/formats.md, "Opening a log". Which torn tails are truncated is explained in
`segment_recovery`.
"""

from tailrace.storage.directory.layout import CLEANED_SUFFIX, Kind, parse_file_name
from tailrace.storage.manifest.leader_epochs import EpochEvidence, LeaderEpochs
from tailrace.storage.manifest.manifest import UNKNOWN_ABORTED, AbortedFacts, Manifest, SegmentFacts, stamped_line
from tailrace.storage.manifest.manifest_file import ManifestFile
from tailrace.storage.producers.producer_snapshots import NOT_WRITTEN, ProducerSnapshots, ProducersUnknownError
from tailrace.storage.producers.producer_state import CompletedTransaction, ProducerStates
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_maker import SegmentMaker
from tailrace.storage.segments.segment_recovery import LogDamagedError, recover_segment


def _evidence_of(facts: SegmentFacts) -> list[EpochEvidence]:
    """Returns what the facts about a segment say about leader epochs."""
    if facts.epoch_starts is not None:
        return [EpochEvidence(*start, is_bridge=True) for start in facts.epoch_starts]
    return [EpochEvidence(facts.epoch, facts.base, is_bridge=False)] if facts.size else []


class LogOpening:
    """The opening of one directory. Its attributes are the result."""

    def __init__(
        self,
        maker: SegmentMaker,
        directory: str,
        manifest_file: ManifestFile,
        *,
        is_new: bool,
        clean: bool,
        may_lose: bool,
        rewrite_unsynced: bool,
    ) -> None:
        """Opens the directory.

        The parameters are those of `Log`; `is_new` says that the directory was made just now.
        """
        self._maker = maker
        self._directory = directory
        self._report = maker.report
        self._snapshots = ProducerSnapshots(maker.files, directory)
        self._manifest_file = manifest_file
        self._clean = clean
        self._may_lose = may_lose
        self._rewrite_unsynced = rewrite_unsynced and not clean
        self.ends_behind_gap = False
        """Whether a scan found a gap before the last batch."""
        self.knows_producers = True
        """Whether the producer states could be restored."""
        self.completed: dict[int, list[CompletedTransaction]] = {}
        """The transactions that end in each segment that was read for the producer states, by its base."""
        self.closed_aborted: AbortedFacts | None = UNKNOWN_ABORTED
        """What the manifest says about the aborted transactions of an open segment that was not read."""
        self.sealed: list[SealedSegment] = []
        self._last: OpenSegment | None = None
        """The segment that was opened last, if it is not sealed."""
        self._evidence: list[EpochEvidence] = []
        self._end: int | None = None
        """The offset at which the next segment must begin. None if it may begin anywhere up to the log start."""
        names = [] if is_new else maker.files.list(directory)
        if not names:
            self._begin()
            return
        try:
            self._open_what_is(names)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        for segment in self.sealed:
            segment.close()
        if self._last is not None:
            self._last.close()

    def _begin(self) -> None:
        """Begins a log in an empty directory, where there is nothing to recover or remove."""
        self._report.was_clean = True
        self.manifest = Manifest()
        self.log_start = self.flushed_end = 0
        self.open_segment = self._maker.empty_segment(self.log_start)
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.closed_aborted = None

    def _open_what_is(self, names: list[str]) -> None:
        maker, directory = self._maker, self._directory
        # Step 1.
        loaded = self._manifest_file.load(rewrite_unsynced=self._rewrite_unsynced)
        self._is_manifest_synced = loaded is None
        self.manifest = loaded if loaded is not None else Manifest(has_start=False)
        if self.manifest.damaged_lines:
            self._report.events.append(f"{directory}: {self.manifest.damaged_lines} damaged lines in the manifest")
        self._finish_replacements(names)
        found = (parse_file_name(name) for name in maker.files.list(directory))
        self._bases = [file.offset for file in found if file is not None and file.kind is Kind.LOG]
        self.log_start = self.manifest.log_start
        if self._bases and self._bases[0] > self.log_start and not self.manifest.is_start_certain:
            raise LogDamagedError(
                f"{directory} begins with offset {self._bases[0]}, and no intact manifest says whether what was"
                " before it are deleted or lost"
            )
        self.flushed_end = self.manifest.synced_end
        # Without segments there is nothing to recover.
        self._report.was_clean = self._clean or (loaded is None and not self._bases)
        self._evidence += [EpochEvidence(*start, is_bridge=False) for start in self.manifest.epochs]
        self._open_segments()
        end = self._end if self._end is not None else self.log_start
        self._require(end, f"it ends at offset {end}")
        # Step 8.
        if self._last is not None and self._is_of_no_use(self._last):
            self._remove_last("it ends at the log start, or below")
        if self._last is None:
            self._last = maker.new_segment(self._end if self._end is not None else self.log_start)
        open_segment = self.open_segment = self._last
        if self.manifest.stamped_end > open_segment.end:
            # Batches that are appended from now on show their own epoch.
            self.manifest.stamped_end = open_segment.end
            self._manifest_file.append([stamped_line(open_segment.end, self.manifest.stamped_epoch)])
            self._manifest_file.sync_now()
        self.epochs = self._leader_epochs()
        self.producers = self._producer_states()
        self._remove_orphans()

    def _is_of_no_use(self, segment: OpenSegment) -> bool:
        """Returns whether all records of the segment are deleted and it is not needed for producer states."""
        if segment.end < self.log_start:
            return True
        return segment.base < self.log_start == segment.end and self._snapshots.has(self.log_start)

    def _finish_replacements(self, names: list[str]) -> None:
        """Step 2: finishes a compaction that reached the manifest, and discards one that did not."""
        files = self._maker.files
        for name in names:
            if not name.endswith(CLEANED_SUFFIX):
                continue
            path = f"{self._directory}/{name}"
            file = parse_file_name(name)
            facts = self.manifest.sealed.get(file.offset) if file is not None else None
            if facts is not None and self._holds(path, facts):
                self._sync_manifest()
                files.rename(path, path.removesuffix(CLEANED_SUFFIX))
                self._report.events.append(f"{path}: took its place, as the compaction had decided")
            else:
                files.remove(path)

    def _holds(self, path: str, facts: SegmentFacts) -> bool:
        size = self._maker.files.size(path)
        if size != facts.size:
            return False
        file = self._maker.files.open(path)
        recovered = recover_segment(
            file, size, facts.base, trusted_end=0, interval_bytes=self._maker.config.index_interval_bytes
        )
        return (recovered.summary.size, recovered.summary.checksum) == (facts.size, facts.checksum)

    def _sync_manifest(self) -> None:
        """Syncs the manifest before a file is changed because of it.

        The process that wrote its last line may have been killed before it was on the disk. If the machine stopped now,
        the manifest on the disk would name files that no longer exist.
        """
        if not self._is_manifest_synced:
            self._manifest_file.sync_now()
            self._is_manifest_synced = True

    def _open_segments(self) -> None:
        """Steps 3 to 7: opens the segments in order."""
        missing = {base for base, facts in self.manifest.sealed.items() if facts.end > self.log_start}
        for index, base in enumerate(self._bases):
            if self._end is not None and base < self._end:
                self._remove([base], "it was merged into the segment before it")
                continue
            needed = self._end if self._end is not None else self.log_start
            if base > needed:
                self._require(needed, f"the segment at offset {needed} is missing")
                self._truncate(self._bases[index:], f"offset {needed} and what follows never reached the disk")
                break
            missing.discard(base)
            self._seal_last()
            facts = self.manifest.sealed.get(base)
            if facts is not None:
                self._trust(facts)
                continue
            self._last, was_truncated = self._open_unsealed(base, is_last=index == len(self._bases) - 1)
            self._end = self._end_above_start(self._last.end)
            if was_truncated and self._end is not None:
                self._truncate(self._bases[index + 1 :], f"offset {self._end}, before it, never reached the disk")
                break
        if missing:
            raise LogDamagedError(f"{self._maker.path(min(missing), Kind.LOG)} is missing")

    def _trust(self, facts: SegmentFacts) -> None:
        """Step 4: adopts a segment that the manifest names. It was synced before the manifest named it."""
        path = self._maker.path(facts.base, Kind.LOG)
        size = self._maker.files.size(path)
        if size != facts.size:
            raise LogDamagedError(f"{path} has {size} bytes; when it was sealed it had {facts.size}")
        if facts.end <= self.log_start:
            self._remove([facts.base], "its records were deleted")
        else:
            self.sealed.append(self._maker.sealed_segment(facts, is_synced=True))
            self._evidence += _evidence_of(facts)
        self._end = self._end_above_start(facts.end)

    def _end_above_start(self, end: int) -> int | None:
        return end if end > self.log_start else None

    def _seal_last(self) -> None:
        if self._last is None:
            return
        if self._last.end <= self.log_start:
            self._remove_last("its records were deleted")
        else:
            self.sealed.append(self._last.seal(NOT_WRITTEN, UNKNOWN_ABORTED))
            self._last = None

    def _remove_last(self, reason: str) -> None:
        assert self._last is not None
        self._last.close()  # it was read, and the disk frees its space only after its file is closed
        self._remove([self._last.base], reason)
        self._last = None

    def _open_unsealed(self, base: int, *, is_last: bool) -> tuple[OpenSegment, bool]:
        """Opens a segment that the manifest does not name as sealed, and returns it with whether it was truncated."""
        path = self._maker.path(base, Kind.LOG)
        size = self._maker.files.size(path)
        closed = self.manifest.closed
        # Step 5: the segment is as it was left at a clean close.
        if self._clean and is_last and closed is not None and (closed.base, closed.size) == (base, size):
            self._evidence += _evidence_of(closed)
            return self._maker.open_segment(closed), False
        # Step 6.
        self._report.was_clean = False
        stamped_end, stamped_epoch = self.manifest.stamped_end, self.manifest.stamped_epoch
        segment, recovered = self._maker.recovered_segment(
            base,
            size,
            trusted_end=self.manifest.trusted_end,
            may_lose=self._may_lose,
            rewrite_unsynced=self._rewrite_unsynced,
            stamped_end=stamped_end,
        )
        self._evidence += [
            each
            for each in recovered.epoch_evidence
            if each.is_bridge or each.start >= stamped_end or each.epoch > stamped_epoch
        ]
        self.ends_behind_gap = recovered.ends_behind_gap
        self._report.indexes_rebuilt += 1
        if recovered.truncation_reason is None:
            return segment, False
        truncated_bytes = size - segment.size
        self._report.truncated_bytes += truncated_bytes
        self._report.events.append(
            f"{path}: {truncated_bytes} bytes truncated at position {segment.size}: {recovered.truncation_reason}"
        )
        return segment, True

    def _require(self, offset: int, sentence: str) -> None:
        """Raises LogDamagedError if everything up to a larger offset was on the disk."""
        if offset < self.flushed_end:
            raise LogDamagedError(
                f"{self._directory}: {sentence}; everything below offset {self.flushed_end} was on the disk"
            )

    def _truncate(self, bases: list[int], reason: str) -> None:
        """Step 7: removes the segments behind a truncated one. See `segment_recovery`."""
        self._report.truncated_bytes += sum(self._maker.files.size(self._maker.path(base, Kind.LOG)) for base in bases)
        self._remove(bases, reason)

    def _remove(self, bases: list[int], reason: str) -> None:
        if bases:
            self._sync_manifest()
        for base in bases:
            self._report.events.append(f"{self._maker.path(base, Kind.LOG)}: removed: {reason}")
            self._maker.remove(base)

    def _leader_epochs(self) -> LeaderEpochs:
        epochs = LeaderEpochs.from_evidence(self._evidence)
        if self.open_segment.end > self.log_start:
            epochs.truncate(self.open_segment.end)
        epochs.advance_start(self.log_start)
        return epochs

    def _producer_states(self) -> ProducerStates:
        closed = self.manifest.closed
        was_closed = self._report.was_clean and closed is not None and closed.base == self.open_segment.base
        checksum = None
        if closed is not None and was_closed:
            checksum, self.closed_aborted = closed.producers_checksum, closed.aborted
        try:
            return self._snapshots.load(self.sealed, self.open_segment, checksum, self.completed)
        except ProducersUnknownError:
            self.knows_producers = False
            return ProducerStates()

    def _remove_orphans(self) -> None:
        """Step 9: removes indexes, producer snapshots and aborted transactions of segments that no longer exist."""
        bases = {segment.base for segment in self.sealed} | {self.open_segment.base}
        ends = {segment.end for segment in self.sealed} | {min(bases)}
        if self._report.was_clean:
            ends.add(self.open_segment.end)
        for name in self._maker.files.list(self._directory):
            file = parse_file_name(name)
            if file is None:
                continue
            keep = ends if file.kind is Kind.PRODUCERS else bases
            if file.offset not in keep:
                self._maker.files.remove(f"{self._directory}/{name}")
