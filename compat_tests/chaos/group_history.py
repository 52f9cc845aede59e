"""What the members of one group observed, and the rules that it must obey.

- A partition never has two owners. Sessions are longer than any fault, so no partition is assigned to a member while
  another member still owns it.
- A new owner of a partition continues at or after every offset whose commit was acknowledged before.
- While a member owns a partition, the offsets that it reads from it rise.
"""

import math
import threading
from collections import defaultdict
from itertools import pairwise
from typing import Any

from chaos.records import Place
from msgspec import Struct, field


class _Tenure(Struct):
    """One member's ownership of a partition."""

    member: str
    begun: float
    floor: int
    """The committed offset that was acknowledged when the ownership began."""
    ended: float = math.inf
    last: int = -1
    """The last offset that the member read."""


class GroupHistory(Struct):
    """The history of one group. Each member reports to it from a thread of its own."""

    name: str
    contradictions: list[str] = field(default_factory=list)
    committed: dict[Place, int] = field(default_factory=dict)
    """The largest committed offset of each partition that was acknowledged."""
    values: set[str] = field(default_factory=set)
    """All values that were read."""
    commits: int = 0
    failed_commits: int = 0
    _tenures: dict[Place, list[_Tenure]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_report(self, member: str, told: dict[str, Any]) -> None:
        with self._lock:
            match told["event"]:
                case "assigned":
                    for place in map(tuple, told["partitions"]):
                        self._begin(member, place, told["at"])
                case "revoked" | "lost":
                    for place in map(tuple, told["partitions"]):
                        self._end(member, place, told["at"])
                case "ended":
                    for place in self._tenures:
                        self._end(member, place, told["at"])
                case "records":
                    for topic, partition, offset, value in told["records"]:
                        self._on_read(member, (topic, partition), offset, value)
                case "committed":
                    self.commits += 1
                    for topic, partition, offset in told["offsets"]:
                        place = (topic, partition)
                        self.committed[place] = max(offset, self.committed.get(place, 0))
                case "commit failed":
                    self.failed_commits += 1

    def floors(self) -> dict[Place, int]:
        """Returns the committed offsets below which the group must never fall again."""
        with self._lock:
            return dict(self.committed)

    def overlaps(self) -> list[str]:
        """Returns each case of two owners of one partition.

        The check runs at the end, because the members share a clock, but their reports do not arrive in the order of
        time.
        """
        found = []
        for place, tenures in self._tenures.items():
            in_order = sorted(tenures, key=lambda each: each.begun)
            for before, after in pairwise(in_order):
                if after.begun < before.ended and after.member != before.member:
                    found.append(
                        f"{self.name}: {place} was assigned to {after.member} at {after.begun:.3f}, but "
                        f"{before.member}, its owner since {before.begun:.3f}, released it at {before.ended:.3f}"
                    )
        return found

    def _begin(self, member: str, place: Place, at: float) -> None:
        self._end(member, place, at)
        self._tenures[place].append(_Tenure(member, at, self.committed.get(place, 0)))

    def _end(self, member: str, place: Place, at: float) -> None:
        for tenure in self._tenures[place]:
            if tenure.member == member and tenure.ended == math.inf:
                tenure.ended = at

    def _on_read(self, member: str, place: Place, offset: int, value: str) -> None:
        self.values.add(value)
        held = [each for each in self._tenures[place] if each.member == member]
        if not held:
            self.contradictions.append(f"{self.name}: {member} read {place} without owning it")
            return
        tenure = held[-1]
        if tenure.last == -1 and offset < tenure.floor:
            self.contradictions.append(
                f"{self.name}: {member} started to read {place} at {offset}, but {tenure.floor} was committed"
            )
        elif offset <= tenure.last:
            self.contradictions.append(f"{self.name}: {member} read {place} at {offset}, after offset {tenure.last}")
        tenure.last = offset
