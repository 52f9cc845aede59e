"""Fuzzes what reads bytes of unknown clients: `python -m fuzzing --inputs 10000000`, with `tests` on Python's path."""

import sys

from .runner import main

sys.exit(main(sys.argv[1:]))
