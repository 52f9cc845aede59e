"""Who waits until enough of a log is there to acknowledge what a producer sent, by rising offset."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Protocol

from tailrace.protocol.error_codes import KafkaError

_STALE_MIN = 16
"""Each of thousands of replicas may keep so many."""


class AcknowledgementWaiter(Protocol):
    """A producer's request, waiting until what it appended is committed."""

    @property
    def done(self) -> bool:
        """It waits no more: its time ran out, or its client has gone."""

    def on_acknowledged(self) -> Callable[[], None] | None:
        """Prepares the answer, if all that it waits for is there now, and returns what sends it: the same for all on
        one connection."""

    def on_refused(self, error: KafkaError) -> None: ...


class Acknowledgements:
    __slots__ = ("_sweep_at", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, AcknowledgementWaiter]] = deque()
        """By rising offset: each is released when that is reached. At most half are done, or a few."""
        self._sweep_at = _STALE_MIN

    def add(self, end: int, waiter: AcknowledgementWaiter) -> None:
        waiting = self.waiting
        if waiting and (end < waiting[-1][0] or len(waiting) >= self._sweep_at):
            self._insert(end, waiter)
        else:
            waiting.append((end, waiter))

    def _insert(self, end: int, waiter: AcknowledgementWaiter) -> None:
        """What was appended before and is sent again, or one that is too many as long as all stay."""
        waiting = self.waiting
        if len(waiting) >= self._sweep_at:
            # While nothing can be acknowledged, clients give up and ask again without end.
            living = [entry for entry in waiting if not entry[1].done]
            waiting.clear()
            waiting.extend(living)
            self._sweep_at = max(_STALE_MIN, 2 * len(waiting))
        waiting.insert(bisect_right(waiting, end, key=itemgetter(0)), (end, waiter))

    def release(self, end: int) -> None:
        """All is there below that offset. A client with several requests in flight gets all answers with one call: it
        costs more than an append."""
        waiting, reached = self.waiting, []
        while waiting and waiting[0][0] <= end:
            reached.append(waiting.popleft()[1])
        for let_leave in {waiter.on_acknowledged(): None for waiter in reached}:
            if let_leave is not None:
                let_leave()

    def refuse(self, error: KafkaError) -> None:
        """Nothing more will be there."""
        while self.waiting:
            self.waiting.popleft()[1].on_refused(error)
