"""Attacks a broker: `python -m attacks KIND BOOTSTRAP SECONDS`, with `compat_tests` on Python's path."""

import sys
import time
from contextlib import suppress
from pathlib import Path

from .kinds import ATTACKS

with suppress(OSError):
    # An attacker has a machine of its own. Here it gets what the broker and its clients leave.
    Path("/proc/self/autogroup").write_text("19")
kind, bootstrap, seconds = sys.argv[1:]
ATTACKS[kind](bootstrap, time.monotonic() + float(seconds))
