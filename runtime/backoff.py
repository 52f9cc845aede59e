"""How long to wait before a retry: longer after each failure, and spread by chance.

When a server comes back, many clients retry. Without chance they would all do so at the same moment, again and again.
"""

from .chance import Chance

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
_DOUBLINGS_MAX = 40


def spread_pause_seconds(failures: int, chance: Chance) -> float:
    """Returns the pause after this many failures in a row; 0 after none."""
    return 0.0 if failures == 0 else doubled_pause_seconds(failures, chance.fraction())


def doubled_pause_seconds(
    failures: int, fraction: float, shortest: float = PAUSE_SECONDS_MIN, longest: float = PAUSE_SECONDS_MAX
) -> float:
    """Returns a pause that doubles with each failure, from `shortest` up to `longest`. Pure.

    `fraction` is a random number from 0 to 1: the pause is halved at 0, and whole at 1.
    """
    doubled = shortest * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)
    return min(doubled, longest) * (1 + fraction) / 2
