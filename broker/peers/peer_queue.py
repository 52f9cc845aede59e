"""What waits to be told on one link: a line for each replica, and the replicas take turns.

So a replica that has much to catch up with does not hold up those that are nearly there. Only what is still worth
hearing waits: most messages say where things stand, and the newest of them says all that the one before it said.
"""

from collections import deque

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.broker.replication.messages import Append, AppendReply, Fenced, Hello, Seal, SealReply
from tailrace.storage.directory.checkpoints import ReplicaKey

from .peer_messages import PeerMessage, RecordsToSend

_NEWEST_REPLACES_OLDER = frozenset({Hello, Seal, SealReply, Fenced})


QueuedMessage = tuple[ReplicaKey, PeerMessage, RecordsToSend | None]


class _Line(Struct, eq=False):
    key: ReplicaKey
    waiting: list[tuple[PeerMessage, RecordsToSend | None]] = field(default_factory=list)
    """A few: a leader has a window of Appends, and most of what is not an Append stands for what was before it."""


class PeerQueue:
    def __init__(self) -> None:
        self._single: QueuedMessage | None = None
        """All that waits, if it came to an empty queue: nearly always, and it needs neither a line nor a turn."""
        self._lines: dict[ReplicaKey, _Line] = {}
        """Of each replica for which anything else ever waited: to make a line and drop it again costs more than to
        tell."""
        self._turns: deque[_Line] = deque()
        """Those in which something waits."""

    def __bool__(self) -> bool:
        return self._single is not None or bool(self._turns)

    def add(self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None) -> None:
        single, self._single = self._single, None
        if single is not None:
            self._add_to_line(*single)
        elif not self._turns:
            self._single = key, message, records
            return
        self._add_to_line(key, message, records)

    def _add_to_line(self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(key)
        waiting = line.waiting
        if not waiting:
            self._turns.append(line)
        elif (newest := _merged(waiting[-1][0], message)) is not None:
            waiting[-1] = newest, records
            return
        waiting.append((message, records))

    def take(self) -> QueuedMessage:
        """The next one to be sent."""
        if self._single is not None:
            single, self._single = self._single, None
            return single
        line = self._turns.popleft()
        message, records = line.waiting.pop(0)
        if line.waiting:
            self._turns.append(line)
        return line.key, message, records

    def take_only(self) -> QueuedMessage | None:
        """What is to be sent if it is one message; None: there are more, or none."""
        turns = self._turns
        is_one = self._single is not None or (len(turns) == 1 and len(turns[0].waiting) == 1)
        return self.take() if is_one else None

    def forget(self, key: ReplicaKey) -> None:
        if self._single is not None and self._single[0] == key:
            self._single = None
        line = self._lines.pop(key, None)
        if line is not None and line.waiting:
            self._turns.remove(line)


def _merged(waiting: PeerMessage, message: PeerMessage) -> PeerMessage | None:
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
    return message if type(message) in _NEWEST_REPLACES_OLDER else None
