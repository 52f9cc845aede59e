"""Guesses the right base offset and epoch of batches whose header is damaged, from the batches around them.

Base offset and epoch are the only parts of a batch that its checksum does not cover. The result is a guess: the caller
proves it with the checksum of the whole segment, so a wrong guess does no harm.
"""

from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts


class _Newest(Struct, frozen=True):
    """The last batch that was added."""

    position: int
    base: int
    end: int
    epoch: int


class _Run(Struct):
    """Consecutive batches of one epoch. Position and base are those of the first one."""

    position: int
    base: int
    epoch: int
    batches: int


class HeaderCorrections:
    """Collects the batches of a sealed segment, which is read from its beginning, and derives corrections."""

    __slots__ = ("_end", "_facts", "_newest", "_runs", "_starts", "_unlike_starts", "found", "guesses")

    def __init__(self, facts: SegmentFacts) -> None:
        self.found: dict[int, tuple[int, int]] = {}
        """Base offset and epoch of batches that seem wrong, by position, as the batches around them suggest."""
        self.guesses: list[dict[int, tuple[int, int]]] = []
        """The corrections to try: `found`, and if several epochs meet, also what the manifest suggests."""
        self._facts = facts
        self._newest: _Newest | None = None
        self._end = facts.base
        """The end of the batch before the newest one, by its corrected base offset."""
        self._runs: list[_Run] = []
        self._starts = LeaderEpochs(facts.epoch_starts or ())
        self._unlike_starts: dict[int, tuple[int, int]] = {}
        """Base offset and epoch according to the manifest of batches that have another epoch, by position. At most
        two are kept: if there are several, recovery has stamped them, and only a single one suggests damage."""

    def add(self, position: int, header: BatchHeader) -> None:
        self._place_newest(header.base_offset)
        self._newest = _Newest(position, header.base_offset, header.next_offset, header.leader_epoch)

    def end(self) -> None:
        """Finishes after the last batch, and computes `guesses`."""
        self._place_newest(self._facts.end)
        self._newest = None
        by_starts = self.found | self._unlike_starts if len(self._unlike_starts) == 1 else {}
        self._correct_epochs()
        self.guesses = [guess for guess in (self.found, by_starts) if guess]

    def _place_newest(self, next_base: int) -> None:
        batch = self._newest
        if batch is None:
            return
        base, count = batch.base, batch.end - batch.base
        fits = self._end <= base and batch.end <= next_base
        # Compaction leaves gaps. A batch in a gap may have any offset within it.
        if not fits and self._end + count <= next_base:
            base = self._end
            self.found[batch.position] = base, batch.epoch
        self._end = base + count
        if self._runs and self._runs[-1].epoch == batch.epoch:
            self._runs[-1].batches += 1
        else:
            self._runs.append(_Run(batch.position, base, batch.epoch, 1))
        begun = self._starts.at(base)
        if begun not in (NO_EPOCH, batch.epoch) and len(self._unlike_starts) < 2:
            self._unlike_starts[batch.position] = base, begun

    def _correct_epochs(self) -> None:
        """Corrects a single batch whose epoch differs from both neighbours, or from the known epoch of the last batch.

        The first batch is corrected only if no other is, since its epoch may be right.
        """
        runs, last = self._runs, self._facts.epoch
        for before, run, after in zip(runs, runs[1:], runs[2:], strict=False):
            if run.batches == 1 and before.epoch == after.epoch:
                self.found[run.position] = run.base, after.epoch
        if len(runs) > 1 and runs[-1].batches == 1 and runs[-1].epoch != last:
            self.found[runs[-1].position] = runs[-1].base, last
        if runs and runs[0].batches == 1 and not self.found:
            epoch = runs[1].epoch if len(runs) > 1 else last
            if epoch != runs[0].epoch:
                self.found[runs[0].position] = runs[0].base, epoch
