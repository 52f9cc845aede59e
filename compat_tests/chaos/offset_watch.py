"""Asks every SPU again and again what groups have committed: it never falls, nor is it below what was acknowledged.

Each is asked for all groups, whoever coordinates them: one that did so until a moment ago must not answer from memory.
"""

import struct
import threading
from collections.abc import Callable, Mapping, Sequence

from chaos.records import Place
from raw import Connection, connect, string

OFFSET_FETCH, VERSION = 9, 3
ALL_TOPICS = struct.pack(">i", -1)
PATIENCE_SECONDS = 4.0
"""Longer than most processes are frozen: the first that one says when it wakes is heard."""
PAUSE_SECONDS = 0.03
Offsets = dict[Place, int]


class OffsetWatch:
    def __init__(self, addresses: Sequence[str], floors: Mapping[str, Callable[[], Offsets]]) -> None:
        """`floors` says for each group what has been acknowledged."""
        self._floors = floors
        self._stopping = threading.Event()
        self.contradictions: list[str] = []
        self.answers = dict.fromkeys(floors, 0)
        self.newest: dict[str, Offsets] = {group: {} for group in floors}
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
                newest[place] = max(offset, newest.get(place, 0))


def fallen(answered: Offsets, acknowledged: Offsets, known: Offsets) -> list[str]:
    """Where the answer is behind what was acknowledged, or answered by others, before anybody asked."""
    return [
        f"{answered.get(place, -1)} is committed of {place}; it was {before[place]} before"
        for before in (acknowledged, known)
        for place in before
        if answered.get(place, -1) < before[place]
    ]


def committed(connection: Connection, group: str) -> Offsets | None:
    """None from one that does not answer for the group, or not yet."""
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
