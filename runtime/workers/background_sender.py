"""A thread that sends what other threads of a worker leave for it, while the main thread waits or works.

The lock orders everything that the worker sends: the main thread holds it while it reports, and other threads hold it
while they leave something.
"""

import threading
from collections.abc import Callable


class BackgroundSender:
    """A lock, and a thread that calls `send` after each `wake`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._woken = threading.Event()

    def wake(self) -> None:
        """Makes the thread call `send` soon."""
        self._woken.set()

    def start(self, send: Callable[[], None]) -> None:
        """Starts the thread, which ends with the process. It holds the lock while it calls `send`."""

        def run() -> None:
            while True:
                self._woken.wait()
                self._woken.clear()
                with self.lock:
                    send()

        threading.Thread(target=run, name="sender", daemon=True).start()
