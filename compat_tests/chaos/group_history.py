"""What the members of one group said, and what must be true of it.

- No partition ever has two owners. Sessions are longer than any fault: nobody is given what another member still holds.
- Whoever is given a partition reads on where the group had come to, as far as anybody was told by then.
- What a member reads of a partition has rising offsets, for as long as it holds it.
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
    """What was acknowledged to be committed when it began."""
    ended: float = math.inf
    last: int = -1
    """The last offset that it read."""


class GroupHistory(Struct):
    """Members are heard by threads of their own."""

    name: str
    contradictions: list[str] = field(default_factory=list)
    committed: dict[Place, int] = field(default_factory=dict)
    """The largest offsets that were acknowledged."""
    values: set[str] = field(default_factory=set)
    """All that was read."""
    commits: int = 0
    failed_commits: int = 0
    _tenures: dict[Place, list[_Tenure]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def on_told(self, member: str, told: dict[str, Any]) -> None:
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
        """Below none of these may the group ever be again."""
        with self._lock:
            return dict(self.committed)

    def overlaps(self) -> list[str]:
        """Looked for at the end: the members' clock is one, but they are not heard in its order."""
        found = []
        for place, tenures in self._tenures.items():
            in_order = sorted(tenures, key=lambda each: each.begun)
            for before, after in pairwise(in_order):
                if after.begun < before.ended and after.member != before.member:
                    found.append(
                        f"{self.name}: {place} was given to {after.member} at {after.begun:.3f}, and {before.member},"
                        f" which had it since {before.begun:.3f}, gave it back at {before.ended:.3f}"
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
            self.contradictions.append(f"{self.name}: {member} read {place} without having been given it")
            return
        tenure = held[-1]
        if tenure.last == -1 and offset < tenure.floor:
            self.contradictions.append(
                f"{self.name}: {member} began to read {place} at {offset}; {tenure.floor} was committed before"
            )
        elif offset <= tenure.last:
            self.contradictions.append(f"{self.name}: {member} read {place} at {offset} after {tenure.last}")
        tenure.last = offset
