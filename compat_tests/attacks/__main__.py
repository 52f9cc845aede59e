"""Attacks a broker: `python -m attacks KIND BOOTSTRAP SECONDS`, with `compat_tests` on Python's path."""

import sys
import time

from .kinds import ATTACKS

kind, bootstrap, seconds = sys.argv[1:]
ATTACKS[kind](bootstrap, time.monotonic() + float(seconds))
