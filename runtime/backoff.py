"""How long to wait before trying again: longer each time, and spread by chance.

Many try again when one comes back. Without chance they would all come at the same moment, again and again.
"""

from .chance import Chance

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
_DOUBLINGS_MAX = 10


def spread_pause_seconds(failures: int, chance: Chance) -> float:
    """After so many failures in a row; none after none."""
    if failures == 0:
        return 0.0
    doubled = 1 << min(failures - 1, _DOUBLINGS_MAX)
    return min(PAUSE_SECONDS_MIN * doubled, PAUSE_SECONDS_MAX) * (1 + chance.fraction()) / 2
