"""Requests that wait for the end of the transaction before, instead of being refused with CONCURRENT_TRANSACTIONS."""

import math
from collections import deque
from collections.abc import Callable

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment

PARKED_SECONDS_MAX = 5.0
"""How long a request waits. Clients wait longer for a response, and retry after an error."""
PARKED_MAX = 5_000
"""How many requests of one coordinator wait at the same time."""
PARKED_PER_ID_MAX = 200
"""How many requests of one transactional id wait at the same time."""
_STALE_MIN = 64


class Asked:
    """A request of a client, which can be handled more than once until it has its response."""

    __slots__ = ("handle", "knows_fenced", "parked_until", "waiter")

    def __init__(self, waiter: Waiter, handle: Callable[["Asked", Moment], None], knows_fenced: bool = True) -> None:
        self.waiter = waiter
        self.handle = handle
        """Handles the request from the beginning: responds, parks it, or raises KafkaError."""
        self.knows_fenced = knows_fenced
        """Whether the client knows the error PRODUCER_FENCED."""
        self.parked_until: float | None = None
        """When the request is refused; None if it is not parked."""


class ParkedRequests:
    """The parked requests of one coordinator."""

    def __init__(self) -> None:
        self._queue: deque[tuple[float, str, Asked]] = deque()
        """The parked requests by their deadlines, and some that are parked no longer."""
        self._by_id: dict[str, dict[Asked, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def deadline(self) -> float:
        """The time at which to call `take_due`: perhaps too early, never too late."""
        return self._queue[0][0] if self._queue else math.inf

    def park(self, transactional_id: str, asked: Asked, now: float) -> bool:
        """Keeps a request until it is taken. Returns False if there is no room for it."""
        if self._count >= PARKED_MAX or len(self._by_id.get(transactional_id, ())) >= PARKED_PER_ID_MAX:
            return False
        asked.parked_until = now + PARKED_SECONDS_MAX
        self._by_id.setdefault(transactional_id, {})[asked] = None
        self._count += 1
        if len(self._queue) > 2 * self._count + _STALE_MIN:
            self._queue = deque(each for each in self._queue if _is_parked(each))
        self._queue.append((asked.parked_until, transactional_id, asked))
        return True

    def take(self, transactional_id: str) -> list[Asked]:
        """Takes out the requests of the transactional id, in the order of their arrival."""
        taken = list(self._by_id.pop(transactional_id, ()))
        self._finish(taken)
        return taken

    def take_due(self, now: float) -> list[Asked]:
        """Takes out the requests that have waited too long."""
        due = []
        while self._queue and self._queue[0][0] <= now:
            entry = self._queue.popleft()
            _, transactional_id, asked = entry
            if _is_parked(entry):
                due.append(asked)
                waiting = self._by_id[transactional_id]
                del waiting[asked]
                if not waiting:
                    del self._by_id[transactional_id]
        self._finish(due)
        return due

    def take_all(self) -> list[Asked]:
        """Takes out all requests."""
        return [asked for transactional_id in list(self._by_id) for asked in self.take(transactional_id)]

    def _finish(self, requests: list[Asked]) -> None:
        for asked in requests:
            asked.parked_until = None
        self._count -= len(requests)
        while self._queue and not _is_parked(self._queue[0]):
            self._queue.popleft()


def _is_parked(entry: tuple[float, str, Asked]) -> bool:
    """Returns False if the request was taken since, even if it was parked again later."""
    return entry[0] == entry[2].parked_until
