"""Bounds the memory of waiting fetches: how many partitions they wait for, over all clients.

A client can have a thousand fetches of ten thousand partitions each that wait for records for days. A fetch for which
there is no room does not wait for records: the client gets what there is after a moment, and asks again. Half of the
room is kept for clients that need little of it, so that they still wait while others ask for too much.
"""

PLACE_BYTES = 512
"""About how much memory a waiting fetch needs for each of its partitions."""
FETCH_PLACES = 4
"""How many places a fetch takes beside those of its partitions."""
MODEST_SHARE = 1000
"""A client is modest if it needs at most this part of the room."""


class FetchRoom:
    """The room for the waiting fetches of all clients of an SPU. A fetch takes a place for each of its partitions."""

    def __init__(self, bytes_max: int) -> None:
        self._places = max(MODEST_SHARE, bytes_max // PLACE_BYTES)
        self._taken: dict[int, int] = {}
        """How many places the fetches of each connection take."""
        self.taken = 0

    def take(self, connection: int, partitions: int) -> int:
        """Takes places for a fetch and returns their number; 0 if the fetch cannot wait."""
        count = partitions + FETCH_PLACES
        own = self._taken.get(connection, 0) + count
        room = self._places if own * MODEST_SHARE <= self._places else self._places // 2
        if self.taken + count > room:
            return 0
        self._taken[connection] = own
        self.taken += count
        return count

    def give_back(self, connection: int, count: int) -> None:
        """Gives back the places of a fetch that does not wait any more."""
        own = self._taken[connection] - count
        if own:
            self._taken[connection] = own
        else:
            del self._taken[connection]
        self.taken -= count
