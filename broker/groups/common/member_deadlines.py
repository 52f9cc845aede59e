"""Deadlines of members, for example the ends of their sessions.

A heartbeat moves a deadline, which costs the same for any number of members. The queue has one entry for each deadline,
which may be earlier than the deadline. An entry that reaches the front too early is put back.
"""

import heapq
import math

_STALE_MIN = 64


class MemberDeadlines:
    __slots__ = ("_ends", "_entries", "_queue")

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._entries: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []

    @property
    def deadline(self) -> float:
        """The time at which to call `take_due`: perhaps too early, never too late."""
        return self._queue[0][0] if self._queue else math.inf

    def has(self, member_id: str) -> bool:
        return member_id in self._ends

    def set(self, member_id: str, end: float) -> None:
        """Sets the deadline of the member, in place of an earlier one."""
        self._ends[member_id] = end
        if end < self._entries.get(member_id, math.inf):
            self._push(member_id, end)

    def clear(self, member_id: str) -> None:
        """Removes the deadline of the member, if there is one."""
        self._ends.pop(member_id, None)
        self._entries.pop(member_id, None)

    def take_due(self, now: float) -> list[str]:
        """Removes the deadlines that have come, and returns their members, the earliest first."""
        due = []
        queue = self._queue
        while queue and queue[0][0] <= now:
            entry, member_id = heapq.heappop(queue)
            if self._entries.get(member_id) != entry:
                continue  # cleared, or replaced by an earlier entry
            del self._entries[member_id]
            end = self._ends[member_id]
            if end > now:
                self._push(member_id, end)
            else:
                del self._ends[member_id]
                due.append((end, member_id))
        return [member_id for _, member_id in sorted(due)]

    def _push(self, member_id: str, end: float) -> None:
        self._entries[member_id] = end
        heapq.heappush(self._queue, (end, member_id))
        if len(self._queue) > 2 * len(self._entries) + _STALE_MIN:
            # The entries of members that have left would stay until their sessions would have due.
            self._queue = [(entry, waiting) for waiting, entry in self._entries.items()]
            heapq.heapify(self._queue)
