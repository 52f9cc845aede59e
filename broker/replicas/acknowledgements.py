"""Produce requests that wait for an offset, in the order of their offsets."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Protocol

from tailrace.protocol.error_codes import KafkaError

_STALE_MIN = 16
"""How many finished requests may stay in the queue; each of thousands of replicas may keep that many."""


class AcknowledgementWaiter(Protocol):
    """A produce request that waits until its records are committed or synced."""

    @property
    def done(self) -> bool:
        """Whether the request does not wait any more, because it timed out or its client is gone."""

    def on_acknowledged(self) -> Callable[[], None] | None:
        """Prepares the response if everything that the request waits for has happened, and returns the function that
        sends it. Requests of one connection return the same function."""

    def on_refused(self, error: KafkaError) -> None:
        """Responds with the error."""


class Acknowledgements:
    """The queue of produce requests of one replica that wait for the same progress."""

    __slots__ = ("_sweep_at", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, AcknowledgementWaiter]] = deque()
        """The waiting requests by rising offset. At most half of them, or a few, are done."""
        self._sweep_at = _STALE_MIN

    def add(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """Adds a request that waits for this offset."""
        waiting = self.waiting
        if waiting and (end < waiting[-1][0] or len(waiting) >= self._sweep_at):
            self._insert(end, waiter)
        else:
            waiting.append((end, waiter))

    def _insert(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """Inserts a request for an earlier offset, or removes finished requests when there are too many."""
        waiting = self.waiting
        if len(waiting) >= self._sweep_at:
            # While nothing can be acknowledged, clients time out and retry without end.
            living = [entry for entry in waiting if not entry[1].done]
            waiting.clear()
            waiting.extend(living)
            self._sweep_at = max(_STALE_MIN, 2 * len(waiting))
        waiting.insert(bisect_right(waiting, end, key=itemgetter(0)), (end, waiter))

    def release(self, end: int) -> None:
        """Acknowledges the requests up to this offset. A connection with several requests sends all responses with one
        call, because a call costs more than an append."""
        waiting, reached = self.waiting, []
        while waiting and waiting[0][0] <= end:
            reached.append(waiting.popleft()[1])
        for let_leave in {waiter.on_acknowledged(): None for waiter in reached}:
            if let_leave is not None:
                let_leave()

    def refuse(self, error: KafkaError) -> None:
        """Refuses all requests, because nothing more will be acknowledged."""
        while self.waiting:
            self.waiting.popleft()[1].on_refused(error)
