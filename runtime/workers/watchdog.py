"""A thread that ends a worker process when it must not go on, whatever its main thread is doing.

It needs a moment in which the main thread does not hold Python's lock, as any thread does.
"""

import threading
from collections.abc import Callable

from .worker_side import WorkerSide, kill_own_group

LOOK_SECONDS_MAX = 1.0


def start_watchdog(side: WorkerSide, next_look: Callable[[], float | None]) -> None:
    """Starts the thread. `next_look` returns after how many seconds to look again, or None if the process must end now.
    The process ends as well when the process that started it has ended."""

    def watch() -> None:
        seconds: float | None = 0.0
        while seconds is not None and not side.input_ended(min(seconds, LOOK_SECONDS_MAX)):
            seconds = next_look()
        kill_own_group()

    threading.Thread(target=watch, name="watchdog", daemon=True).start()
