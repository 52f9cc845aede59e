"""The chance seam: every random decision of a server is drawn here, so that a seed can replay it."""

import os
import random
from collections.abc import Sequence
from typing import Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")


class Chance(Protocol):
    def uuid(self) -> UUID:
        """A random (version 4) UUID."""

    def below(self, limit: int) -> int:
        """A whole number in [0, limit)."""

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, each as likely."""

    def fraction(self) -> float:
        """A number in [0, 1)."""


class RandomChance:
    """Chance from a seed; without one, from the operating system."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(int.from_bytes(os.urandom(16), "big") if seed is None else seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def fraction(self) -> float:
        return self._random.random()
