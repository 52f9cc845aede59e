"""What waits to be told on one link: a line for each replica, and the replicas take turns.

So a replica that has much to catch up with does not hold up those that are nearly there. Only what is still worth
hearing waits: most messages say where things stand, and the newest of them says all that the one before it said.
"""

from collections import deque
from dataclasses import replace

from tailrace.storage.checkpoints import ReplicaKey

from .peer_messages import PeerMessage, RecordsToSend
from .replication.messages import Append, AppendReply, Fenced, Hello, Seal, SealReply

Waiting = tuple[PeerMessage, RecordsToSend | None]

_ONLY_THE_NEWEST = frozenset({Hello, Seal, SealReply, Fenced})


class PeerQueue:
    def __init__(self) -> None:
        self._lines: dict[ReplicaKey, deque[Waiting]] = {}
        """None of them is empty."""
        self._turns: deque[ReplicaKey] = deque()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def add(self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None) -> None:
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque(((message, records),))
            self._turns.append(key)
            return
        newest = _in_place_of(line[-1][0], message)
        if newest is None:
            line.append((message, records))
        else:
            line[-1] = newest, records

    def take(self) -> tuple[ReplicaKey, PeerMessage, RecordsToSend | None]:
        """The next one to be sent."""
        key = self._turns.popleft()
        line = self._lines[key]
        message, records = line.popleft()
        if line:
            self._turns.append(key)
        else:
            del self._lines[key]
        return key, message, records

    def forget(self, key: ReplicaKey) -> None:
        if self._lines.pop(key, None) is not None:
            self._turns.remove(key)


def _in_place_of(waiting: PeerMessage, message: PeerMessage) -> PeerMessage | None:
    """What to send instead of both; None if both are worth hearing."""
    if type(waiting) is not type(message):
        return None
    if isinstance(waiting, AppendReply):
        assert isinstance(message, AppendReply)
        if waiting.missed and not message.missed and waiting.epoch == message.epoch:
            return replace(message, missed=True)  # sent again it may be once too often, never once too few
        return message
    if isinstance(waiting, Append):
        return None if waiting.entries else message
    return message if type(message) in _ONLY_THE_NEWEST else None
