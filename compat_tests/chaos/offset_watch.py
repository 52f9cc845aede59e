"""Asks every SPU for the groups' committed offsets, which never fall, and never lag behind what was acknowledged.

It asks each SPU about all groups, also about groups that another SPU coordinates: a former coordinator must not respond
from its memory.
"""

import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from chaos.records import Place
from raw import Connection, connect, string

OFFSET_FETCH, VERSION = 9, 3
ALL_TOPICS = struct.pack(">i", -1)
PATIENCE_SECONDS = 4.0
"""The timeout of a request. It is longer than most freezes, so that the first response of a woken process counts."""
PAUSE_SECONDS = 0.03
Offsets = dict[Place, int]


class OffsetWatch:
    def __init__(self, addresses: Sequence[str], floors: Mapping[str, Callable[[], Offsets]]) -> None:
        """Starts the watch; `floors` returns what was acknowledged for each group."""
        self._floors = floors
        self._stopping = threading.Event()
        self.contradictions: list[str] = []
        self.answers = dict.fromkeys(floors, 0)
        self.newest: dict[str, Offsets] = {group: {} for group in floors}
        self.rises: list[tuple[float, str, Place, int]] = []
        """The monotonic time at which each higher offset was seen, with its group and partition."""
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in addresses]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, address: str) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            try:
                with connect(address) as connection:
                    connection.socket.settimeout(PATIENCE_SECONDS)
                    while not self._stopping.wait(PAUSE_SECONDS):
                        for group in self._floors:
                            self._ask(address, connection, group)
            except (OSError, EOFError):
                continue

    def _ask(self, address: str, connection: Connection, group: str) -> None:
        floor = self._floors[group]()
        with self._lock:
            known = dict(self.newest[group])
        answered = committed(connection, group)
        if answered is None:
            return
        with self._lock:
            self.contradictions += [f"{address} of {group}: {each}" for each in fallen(answered, floor, known)]
            self.answers[group] += 1
            newest = self.newest[group]
            for place, offset in answered.items():
                if offset > newest.get(place, 0):
                    self.rises.append((time.monotonic(), group, place, offset))
                newest[place] = max(offset, newest.get(place, 0))


def fallen(answered: Offsets, acknowledged: Offsets, known: Offsets) -> list[str]:
    """Returns where a response is below an offset that was acknowledged or reported before the request was sent."""
    return [
        f"the committed offset of {place} is {answered.get(place, -1)}, and was {before[place]} before"
        for before in (acknowledged, known)
        for place in before
        if answered.get(place, -1) < before[place]
    ]


def committed(connection: Connection, group: str) -> Offsets | None:
    """Returns the committed offsets, or None if the SPU does not coordinate the group, or not yet."""
    body = connection.call(OFFSET_FETCH, VERSION, string(group) + ALL_TOPICS)
    position = 4
    offsets: Offsets = {}
    (topics,) = struct.unpack_from(">i", body, position)
    position += 4
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", body, position)
        topic = body[position + 2 : position + 2 + size].decode()
        position += 2 + size
        (partitions,) = struct.unpack_from(">i", body, position)
        position += 4
        for _ in range(partitions):
            partition, offset, metadata_size = struct.unpack_from(">iqh", body, position)
            position += struct.calcsize(">iqh") + max(metadata_size, 0)
            (error,) = struct.unpack_from(">h", body, position)
            position += 2
            if error:
                return None
            offsets[topic, partition] = offset
    (error,) = struct.unpack_from(">h", body, position)
    return None if error else offsets
