"""How long to wait before a retry: longer after each failure, and spread by chance.

When a server comes back, many clients retry. Without chance they would all do so at the same moment, again and again.
"""

from .chance import Chance

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
_DOUBLINGS_MAX = 10


def spread_pause_seconds(failures: int, chance: Chance) -> float:
    """Returns the pause after this many failures in a row; 0 after none."""
    if failures == 0:
        return 0.0
    doubled = 1 << min(failures - 1, _DOUBLINGS_MAX)
    return min(PAUSE_SECONDS_MIN * doubled, PAUSE_SECONDS_MAX) * (1 + chance.fraction()) / 2
