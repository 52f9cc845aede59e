"""Runs seeds: `python -m simulation --seeds 100 --first-seed 0 --policy live`, with `tests` on Python's path."""

import sys

from .runner import main

sys.exit(main(sys.argv[1:]))
