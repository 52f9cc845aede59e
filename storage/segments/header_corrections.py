"""What the offset and the epoch of a batch must have been that cannot be where it is: the batches around it tell.

These two are all that no checksum of a batch covers. Whoever corrects them proves it with the checksum of the whole
segment: this is a guess, and makes no difference if it is wrong.
"""

from msgspec import Struct

from tailrace.protocol.batches.record_batch import BatchHeader
from tailrace.protocol.ids import NO_EPOCH
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.manifest.manifest import SegmentFacts


class _Newest(Struct, frozen=True):
    position: int
    base: int
    end: int
    epoch: int


class _Run(Struct):
    """Of one epoch; position and offset are those of its first batch."""

    position: int
    base: int
    epoch: int
    batches: int


class HeaderCorrections:
    """Of a sealed segment that is read from its beginning, batch by batch."""

    __slots__ = ("_end", "_facts", "_newest", "_runs", "_starts", "_unlike_starts", "found", "guesses")

    def __init__(self, facts: SegmentFacts) -> None:
        self.found: dict[int, tuple[int, int]] = {}
        """Base offset and epoch, by the positions of those that have others; as their neighbours tell."""
        self.guesses: list[dict[int, tuple[int, int]]] = []
        """The same, and where several epochs meet, what the manifest tells: each is worth to be tried."""
        self._facts = facts
        self._newest: _Newest | None = None
        self._end = facts.base
        """Of what lies before the newest one, where that should be."""
        self._runs: list[_Run] = []
        self._starts = LeaderEpochs(facts.epoch_starts or ())
        self._unlike_starts: dict[int, tuple[int, int]] = {}
        """Base offset and the epoch that had begun there, by the manifest, of batches that have another one. No more
        than two: where there are several, recovery has stamped them, and only one alone tells anything."""

    def add(self, position: int, header: BatchHeader) -> None:
        self._place_newest(header.base_offset)
        self._newest = _Newest(position, header.base_offset, header.next_offset, header.leader_epoch)

    def end(self) -> None:
        """That was the last one."""
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
        # Compaction leaves gaps; whatever was in one of them may have been anywhere in it.
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
        """Of a batch that has another one than both its neighbours; the last one's is known. The first one's may be
        right, where all others are."""
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
