"""Does what a newcomer does on the first day, from a fresh copy of the sources: `make first-day`.

Needs Python's standard library alone, bash, make and a package index.
"""

import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from .newcomer import Newcomer
from .pages import PAGES
from .trips import TRIPS


def main() -> int:
    """Takes all steps in order and returns the exit status: 1 as soon as a step fails."""
    # A process in the background ignores Ctrl-C, and so would all commands that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="first-day-") as directory, Newcomer(Path(directory)) as newcomer:
        for step in (*PAGES, *TRIPS):
            started = time.monotonic()
            title = (step.__doc__ or step.__name__).splitlines()[0]
            try:
                step(newcomer)
            except Exception:
                print(f"FAILED  {title}", flush=True)
                traceback.print_exc()
                return 1
            print(f"ok      {title} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"The first day took {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
