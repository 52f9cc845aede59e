"""The messages that wait on one link: one line for each replica, and the replicas take turns.

So a replica that has a lot to catch up with does not delay the others. Messages that would be useless do not wait: most
messages describe a state, and the newest one replaces the one before it.
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
    """A few messages: a leader has a window of Appends, and most other messages replace the one before them."""


class PeerQueue:
    """The queue of one link."""

    def __init__(self) -> None:
        self._single: QueuedMessage | None = None
        """The only waiting message, if it came to an empty queue. This is nearly always the case, and needs no line."""
        self._lines: dict[ReplicaKey, _Line] = {}
        """The line of each replica that ever had to wait. Making and dropping lines would cost more than sending."""
        self._turns: deque[_Line] = deque()
        """The lines in which messages wait, in the order of their turns."""

    def __bool__(self) -> bool:
        return self._single is not None or bool(self._turns)

    def add(self, key: ReplicaKey, message: PeerMessage, records: RecordsToSend | None) -> None:
        """Queues a message, which may replace the last one of its replica."""
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
        """Takes the next message to send."""
        if self._single is not None:
            single, self._single = self._single, None
            return single
        line = self._turns.popleft()
        message, records = line.waiting.pop(0)
        if line.waiting:
            self._turns.append(line)
        return line.key, message, records

    def take_only(self) -> QueuedMessage | None:
        """Takes the message if it is the only one; None if there are more, or none."""
        turns = self._turns
        is_one = self._single is not None or (len(turns) == 1 and len(turns[0].waiting) == 1)
        return self.take() if is_one else None

    def forget(self, key: ReplicaKey) -> None:
        """Drops the messages of a replica."""
        if self._single is not None and self._single[0] == key:
            self._single = None
        line = self._lines.pop(key, None)
        if line is not None and line.waiting:
            self._turns.remove(line)


def _merged(waiting: PeerMessage, message: PeerMessage) -> PeerMessage | None:
    """Returns the message to send instead of both; None if both have to be sent."""
    if type(waiting) is not type(message):
        return None
    if isinstance(waiting, AppendReply):
        assert isinstance(message, AppendReply)
        if waiting.missed and not message.missed and waiting.epoch == message.epoch:
            return replace(message, missed=True)  # sending again once too often is harmless; once too few is not
        return message
    if isinstance(waiting, Append):
        return None if waiting.entries else message
    return message if type(message) in _NEWEST_REPLACES_OLDER else None
