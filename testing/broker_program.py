"""The program of a test's broker: `tailrace up` on free ports, with data in a temporary directory that it removes.

It stops when its standard input ends, which is when the process of the tests has ended.
"""

import signal
import sys
import tempfile
from collections.abc import Sequence
from types import FrameType

from tailrace.cli.main import main

FREE_PORTS = [
    *("--public", "127.0.0.1:0", "--private", "127.0.0.1:0", "--metrics", "off"),
    *("--sc", "127.0.0.1:0", "--sc-private", "127.0.0.1:0"),
]


def run(arguments: Sequence[str]) -> int:
    """Runs the broker and returns the exit status."""
    signal.signal(signal.SIGTERM, _exit)  # for the moments before and after those in which the broker handles it
    with tempfile.TemporaryDirectory(prefix="tailrace-test-", ignore_cleanup_errors=True) as directory:
        return main(["up", "--data", directory, "--until-input-ends", *FREE_PORTS, *arguments])


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
