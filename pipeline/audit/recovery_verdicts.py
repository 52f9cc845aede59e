"""Decides what recoveries explain: holes, and epochs that differ between copies. It looks at a whole partition.

A recovery stamps its epoch on what it finds beyond the high watermark, may write holes there, and ends with a bridge
that names the epoch. From this follow three rules:

- The first bridge behind a hole names the epoch that is stamped on the hole, or a smaller one if a later recovery has
  stamped the hole again.
- Copies have different epochs at an offset only if a recovery of the larger epoch has stamped some of them. A copy
  that missed the recovery, and knew already that the batch is committed, keeps the smaller epoch.
- An epoch is smaller than the one before it only where a recovery has stamped batches.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from .audit_verdicts import Bridge, EpochDifference, EpochFall, Finding, Hole, Verdict


class Stamps(Struct, frozen=True):
    """What the manifest of a copy says about stamps of recoveries."""

    end: int = 0
    """The offset below which recoveries have stamped batches."""
    epoch: int = -1
    """The largest epoch that was stamped."""

    def explain(self, last: int, epoch: int) -> bool:
        """Returns whether a recovery may have stamped this epoch on the batch that ends with the offset `last`."""
        return last < self.end and epoch <= self.epoch


class RecoveryVerdicts:
    """The decisions about one partition."""

    def __init__(self, bridges: Sequence[Bridge], stamps: Sequence[Stamps]) -> None:
        """`stamps`: those of each copy, by its number."""
        self._bridges = sorted(bridges, key=lambda each: each.offset)
        self._offsets = [each.offset for each in self._bridges]
        self._stamps = stamps

    def of_holes(self, holes: Sequence[Hole], unfinished: frozenset[int] = frozenset()) -> Iterator[Finding]:
        """`unfinished`: the copies that have more beyond their high watermark, where the bridge may be."""
        for hole in holes:
            following = self._bridges[bisect_right(self._offsets, hole.last) :][:1]
            if not following and not unfinished.isdisjoint(hole.copies):
                continue
            if not following:
                reason = "no bridge follows it"
            elif following[0].epoch > hole.epoch:
                reason = (
                    f"the next bridge, at offset {following[0].offset}, names epoch {following[0].epoch}, and the hole "
                    f"is of epoch {hole.epoch}"
                )
            else:
                continue
            for copy in hole.copies:
                sentence = f"the hole at offset {hole.first} is in no recovery: {reason}"
                yield Finding(copy, Verdict.HOLE, hole.first, hole.last, sentence)

    def of_differences(self, differences: Iterable[EpochDifference]) -> Iterator[Finding]:
        for each in differences:
            smallest = min(epoch for _, epoch in each.epochs)
            larger = {epoch for _, epoch in each.epochs if epoch > smallest}
            if all(self._is_stamped(each, epoch) for epoch in larger):
                continue
            counts = Counter(epoch for _, epoch in each.epochs)
            (usual, count), *rest = counts.most_common()
            is_tie = bool(rest) and rest[0][1] == count
            for copy, epoch in each.epochs:
                if is_tie or epoch != usual:
                    others = " and ".join(
                        f"{other} in {{copy {number}}}" for number, other in each.epochs if other != epoch
                    )
                    sentence = f"the batch at offset {each.first} has epoch {epoch}, and {others}; no recovery says why"
                    yield Finding(copy, Verdict.DIVERGED, each.first, each.last, sentence)

    def of_falls(self, falls: Sequence[EpochFall]) -> Iterator[Finding]:
        for fall in falls:
            if not self._stamps[fall.copy].explain(fall.before, fall.epoch_before):
                sentence = (
                    f"epoch {fall.epoch} at offset {fall.offset} follows epoch {fall.epoch_before}, and no recovery "
                    "says why"
                )
                yield Finding(fall.copy, Verdict.DIVERGED, fall.before, fall.offset, sentence)

    def _is_stamped(self, difference: EpochDifference, epoch: int) -> bool:
        has_bridge = any(each.epoch == epoch for each in self._bridges[bisect_right(self._offsets, difference.last) :])
        return has_bridge or any(
            self._stamps[copy].explain(difference.last, epoch) for copy, own in difference.epochs if own == epoch
        )
