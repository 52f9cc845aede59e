"""Remembers which SPU leads a partition or coordinates an id, so that a request costs no look-up.

A place is forgotten when its SPU did not respond, or was not responsible any more. Then it is looked up again.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import Place

Key = TypeVar("Key", bound=Hashable)


class KnownPlaces(Generic[Key]):
    """The known places of keys."""

    def __init__(self, look_up: "Place[Key]") -> None:
        self._look_up = look_up
        self._known: dict[Key, int] = {}

    async def place(self, keys: Sequence[Key]) -> Mapping[Key, int | RefusedError]:
        """Finds the SPU that is responsible for each key; a `Place`. Raises UnreachableError and RefusedError."""
        found: dict[Key, int | RefusedError] = {each: self._known[each] for each in keys if each in self._known}
        unknown = [each for each in keys if each not in found]
        if unknown:
            found |= await self._look_up(unknown)
            self._known |= {each: where for each, where in found.items() if isinstance(where, int)}
        return found

    def forget(self, keys: Iterable[Key]) -> None:
        """Forgets places that were wrong, or whose SPU does not respond."""
        for each in keys:
            self._known.pop(each, None)
