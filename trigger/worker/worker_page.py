"""The slots of the page that a pool and a worker share: the lease, and what the worker is doing.

When a worker dies, its page tells which event it was handling, and which events of the chunk need not be repeated.
"""

from typing import NamedTuple

from tailrace.runtime.workers.shared_page import SharedPage

# Slots for numbers.
CHUNK = 0
"""The number of the chunk that the worker has claimed last."""
RUNNING = 1
"""The offset of the event, or of the first event of the batch, that is being handled; -1 if none is."""
RUNNING_END = 2
"""The offset after the event or batch that is being handled."""
SAFE = 3
"""All records of the chunk before this offset are settled: they were handled, and what they emitted is in the page."""
OPEN = 4
"""How many events are open, with explicit acknowledgement."""
OUTPUTS_END = 5
"""Where the outputs of the chunk end in the range of bytes: see `unsent_outputs`."""

# Slots for times, by the clock of the page.
LEASE_UNTIL = 0
"""When running and open events must end."""
BEGIN_UNTIL = 1
"""Until when the worker may begin events. The pool sets it to 0 to make a worker report early."""
STARTED = 2
"""When the running event began."""

NONE = -1


class Doing(NamedTuple):
    """What a worker is doing, or was doing when it died."""

    chunk: int
    running: int
    running_end: int
    safe: int
    open: int
    started: float


class WorkerPage:
    """The page of one worker, from the side of the pool."""

    def __init__(self, page: SharedPage) -> None:
        self._page = page
        page.numbers[CHUNK] = page.numbers[RUNNING] = NONE

    def doing(self) -> Doing:
        """Returns what the worker is doing."""
        chunk, running, running_end, safe, is_open = self._page.numbers[: OPEN + 1]
        return Doing(chunk, running, running_end, safe, is_open, self._page.times[STARTED])

    def set_lease(self, until: float, *, may_begin: bool) -> None:
        """Lets the worker handle events up to this time, or end the running one if it may begin none."""
        self._page.times[LEASE_UNTIL] = until
        self._page.times[BEGIN_UNTIL] = until if may_begin else 0.0
