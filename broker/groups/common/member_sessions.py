"""Whose session ends next. A heartbeat moves an end and nothing else, however many members there are.

The queue has one entry for each session, which may be older than its end; whoever comes to its front with an end that
has moved is put back.
"""

import heapq
import math

_STALE_MIN = 64


class Sessions:
    __slots__ = ("_ends", "_entries", "_queue")

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._entries: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []

    @property
    def deadline(self) -> float:
        """When to call `take_ended`: perhaps too early, never too late."""
        return self._queue[0][0] if self._queue else math.inf

    def awaits(self, member_id: str) -> bool:
        return member_id in self._ends

    def begin(self, member_id: str, end: float) -> None:
        """Or goes on: a session that is there already ends then instead."""
        self._ends[member_id] = end
        if end < self._entries.get(member_id, math.inf):
            self._push(member_id, end)

    def stop(self, member_id: str) -> None:
        """It is not awaited any more."""
        self._ends.pop(member_id, None)
        self._entries.pop(member_id, None)

    def take_ended(self, now: float) -> list[str]:
        """Those whose end has come, earliest first; their sessions are stopped."""
        ended = []
        queue = self._queue
        while queue and queue[0][0] <= now:
            entry, member_id = heapq.heappop(queue)
            if self._entries.get(member_id) != entry:
                continue  # stopped, or due earlier than this entry says
            del self._entries[member_id]
            end = self._ends[member_id]
            if end > now:
                self._push(member_id, end)
            else:
                del self._ends[member_id]
                ended.append((end, member_id))
        return [member_id for _, member_id in sorted(ended)]

    def _push(self, member_id: str, end: float) -> None:
        self._entries[member_id] = end
        heapq.heappush(self._queue, (end, member_id))
        if len(self._queue) > 2 * len(self._entries) + _STALE_MIN:
            # Members that come and go would leave entries behind for as long as their sessions could have lasted.
            self._queue = [(entry, waiting) for waiting, entry in self._entries.items()]
            heapq.heapify(self._queue)
