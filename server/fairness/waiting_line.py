"""A line that serves the addresses in it by turns, so that one address cannot fill it for all others."""

from collections import deque
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")


class WaitingLine(Generic[Waiting]):
    """What waits, in a line of its own for each address. The address served least recently is next."""

    __slots__ = ("_by_address",)

    def __init__(self) -> None:
        self._by_address: dict[str, deque[Waiting]] = {}
        """Never contains an empty line. The first address is next."""

    def __bool__(self) -> bool:
        return bool(self._by_address)

    def join(self, address: str, waiting: Waiting) -> None:
        """Adds something at the end of the line of its address."""
        line = self._by_address.get(address)
        if line is None:
            line = self._by_address[address] = deque()
        line.append(waiting)

    def leave(self, address: str, waiting: Waiting) -> None:
        """Removes something that does not wait any more."""
        line = self._by_address[address]
        line.remove(waiting)
        if not line:
            del self._by_address[address]

    def take(self) -> Waiting:
        """Removes and returns what is next. The line must not be empty."""
        address = next(iter(self._by_address))
        line = self._by_address.pop(address)
        taken = line.popleft()
        if line:
            self._by_address[address] = line
        return taken
