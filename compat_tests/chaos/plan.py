"""A reproducible list of faults, made from a seed."""

import random
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

UNHARMED_SECONDS = (0.2, 2.5)
"""How long a process is unharmed between two faults, which is sometimes shorter than its start takes."""
AWAY_SECONDS = (0.05, 3.0)
"""How long a fault lasts: shorter or longer than an SPU's lease of 1.5 seconds."""


class Harm(Enum):
    KILL = "kill -9"
    STOP = "SIGTERM"
    FREEZE = "SIGSTOP"
    SEVER = "severed"
    SILENCE = "silent in both directions"
    SILENCE_ONE = "silent in one direction"
    SLOW = "slow"


PROCESS_FAULTS = (Harm.KILL, Harm.KILL, Harm.STOP, Harm.FREEZE)
"""The faults of a process; the most harmful one occurs most often."""
LINK_FAULTS = (Harm.SEVER, Harm.SILENCE, Harm.SILENCE_ONE, Harm.SLOW)


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
    """Returns faults that harm each target repeatedly and independently of the others, and that all end again."""
    chance = random.Random(seed)
    faults = []
    for target, harms in targets.items():
        now = chance.uniform(0, unharmed_seconds[1])
        while now < seconds:
            faults.append(Fault(now, target, chance.choice(harms), chance.uniform(*AWAY_SECONDS)))
            now += faults[-1].away_seconds + chance.uniform(*unharmed_seconds)
    return sorted(faults, key=lambda fault: fault.at_seconds)
