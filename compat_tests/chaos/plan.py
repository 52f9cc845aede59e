"""What goes wrong when: a list of faults from a seed, the same each time."""

import random
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

UNHARMED_SECONDS = (0.2, 2.5)
"""Between two faults of one process; shorter than a start takes, at times."""
AWAY_SECONDS = (0.05, 3.0)
"""On either side of an SPU's lease, which is 1.5 seconds."""


class Harm(Enum):
    KILL = "kill -9"
    STOP = "SIGTERM"
    FREEZE = "SIGSTOP"
    SEVER = "severed"
    SILENCE = "silent both ways"
    SILENCE_ONE = "silent one way"
    SLOW = "slow"


OF_A_PROCESS = (Harm.KILL, Harm.KILL, Harm.STOP, Harm.FREEZE)
"""What leaves the most behind comes most often."""
OF_A_LINK = (Harm.SEVER, Harm.SILENCE, Harm.SILENCE_ONE, Harm.SLOW)


class Fault(Struct, frozen=True):
    at_seconds: float
    target: str
    harm: Harm
    away_seconds: float

    def __str__(self) -> str:
        return f"{self.at_seconds:6.2f} s  {self.target}  {self.harm.value}, for {self.away_seconds:.2f} s"


def plan(
    seed: int,
    targets: Mapping[str, Sequence[Harm]],
    seconds: float,
    unharmed_seconds: tuple[float, float] = UNHARMED_SECONDS,
) -> list[Fault]:
    """Each target is harmed again and again, and independently of the others; at the end all are back."""
    chance = random.Random(seed)
    faults = []
    for target, harms in targets.items():
        now = chance.uniform(0, unharmed_seconds[1])
        while now < seconds:
            faults.append(Fault(now, target, chance.choice(harms), chance.uniform(*AWAY_SECONDS)))
            now += faults[-1].away_seconds + chance.uniform(*unharmed_seconds)
    return sorted(faults, key=lambda fault: fault.at_seconds)
