"""The chance seam: the source of every random decision of a server, which a seed can replay."""

import os
import random
from collections.abc import Sequence
from typing import Protocol, TypeVar
from uuid import UUID

T = TypeVar("T")


class Chance(Protocol):
    """A source of random values."""

    def uuid(self) -> UUID:
        """Returns a random (version 4) UUID."""

    def below(self, limit: int) -> int:
        """Returns a whole number in [0, limit)."""

    def choice(self, options: Sequence[T]) -> T:
        """Returns one of the options, each with the same probability."""

    def fraction(self) -> float:
        """Returns a number in [0, 1)."""

    def secret(self, count: int) -> bytes:
        """Returns unpredictable bytes, for salts, nonces, keys and passwords."""


class RandomChance:
    """Chance from a seed, or from the operating system if there is none."""

    def __init__(self, seed: int | None = None) -> None:
        self._is_seeded = seed is not None
        self._random = random.Random(int.from_bytes(os.urandom(16), "big") if seed is None else seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def fraction(self) -> float:
        return self._random.random()

    def secret(self, count: int) -> bytes:
        # The other draws are shown to clients, for example as ids, and would betray those that follow.
        return self._random.randbytes(count) if self._is_seeded else os.urandom(count)
