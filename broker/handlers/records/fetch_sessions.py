"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, and then only what changes.

A session remembers what the consumer reads and what it was last told, so that a response lists only partitions with
news. The number of sessions is bounded, and the number of partitions that they remember together. A session that was
not used for a while makes room for a new one, and its consumer starts another. If all sessions are in use, new
consumers are served without a session: closing the session of an active consumer would cost more than it saves, since
that consumer would close the next one.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NoReturn
from uuid import UUID

from tailrace.cluster.topic_names import may_be_topic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.chance import Chance

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
UNUSED_SECONDS_MIN = 120.0
"""How long a session must be unused before another may take its place."""
_ID_LIMIT = 2**31 - 1

PartitionKey = tuple[str | UUID, int]
"""A topic's name, or from Fetch v13 on its id, and the partition's number."""


class FetchedPartition:
    """What a consumer wants from one partition, and what it was told last."""

    __slots__ = (
        "bytes_max",
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "told_error",
        "told_high_watermark",
        "told_log_start",
    )

    def __init__(
        self, key: PartitionKey, fetch_offset: int, bytes_max: int, current_leader_epoch: int, last_fetched_epoch: int
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.told_high_watermark = -1
        self.told_log_start = -1
        self.told_error = 0

    def update(self, other: "FetchedPartition") -> None:
        """Takes over what a newer request wants."""
        self.fetch_offset = other.fetch_offset
        self.bytes_max = other.bytes_max
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch

    def note_told(self, high_watermark: int, log_start: int, error: int) -> bool:
        """Notes what the consumer is told now, and returns whether it is news."""
        news = (
            error != 0
            or self.told_error != 0
            or high_watermark != self.told_high_watermark
            or log_start != self.told_log_start
        )
        self.told_high_watermark = high_watermark
        self.told_log_start = log_start
        self.told_error = error
        return news


class FetchSession:
    """The partitions that one consumer reads, in the order in which they are served."""

    __slots__ = ("epoch", "id", "partitions", "used_at", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: float) -> None:
        self.id = session_id
        self.used_at = now
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[PartitionKey, FetchedPartition] = {}

    def update(self, wanted: Iterable[FetchedPartition], forgotten: Iterable[PartitionKey]) -> None:
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.update(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    def move_to_end(self, keys: Iterable[PartitionKey]) -> None:
        """Moves partitions that were served to the end, so that the others come first next time."""
        partitions = self.partitions
        for key in keys:
            partition = partitions.pop(key, None)
            if partition is not None:
                partitions[key] = partition

    def __iter__(self) -> Iterator[FetchedPartition]:
        return iter(self.partitions.values())


class FetchSessions:
    """All fetch sessions of an SPU."""

    def __init__(self, chance: Chance, sessions_max: int, partitions_max: int) -> None:
        self._chance = chance
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.held_partitions = 0
        """The number of partitions that all sessions together remember."""

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, wanted: list[FetchedPartition], uses_topic_ids: bool, now: float) -> FetchSession | None:
        """Creates a session. Returns None if it is not worth while or has no room; the fetch then has no session."""
        if not wanted or self._sessions_max == 0 or len(wanted) > self._partitions_max:
            return None
        if not all(may_be_topic(partition.key[0]) for partition in wanted):
            return None
        while len(self._sessions) >= self._sessions_max or self.held_partitions + len(wanted) > self._partitions_max:
            if not self._close_unused(now):
                return None
        session = FetchSession(self._new_id(), uses_topic_ids, now)
        self._sessions[session.id] = session
        self.update(session, wanted, ())
        return session

    def _close_unused(self, now: float) -> bool:
        """Closes the session that was unused for the longest time. Returns False if that time is too short."""
        oldest = next(iter(self._sessions.values()))
        if oldest.used_at > now - UNUSED_SECONDS_MIN:
            return False
        self.close(oldest.id)
        return True

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now: float) -> FetchSession:
        """Returns the session that a request continues, with its next epoch. Raises KafkaError."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if session.epoch + 1 != epoch and not (session.epoch == _ID_LIMIT and epoch == 1):
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, so {epoch} cannot follow",
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} mixes topic names and ids"
            )
        session.epoch = epoch
        session.used_at = now
        self._sessions.move_to_end(session_id)
        return session

    def update(
        self, session: FetchSession, wanted: Iterable[FetchedPartition], forgotten: Iterable[PartitionKey]
    ) -> None:
        """Applies what a request changes in its session, which is the session used last. Raises KafkaError."""
        wanted = list(wanted)
        if not all(may_be_topic(partition.key[0]) for partition in wanted):
            self._end(session)
        before = len(session.partitions)
        session.update(wanted, forgotten)
        self.held_partitions += len(session.partitions) - before
        while self.held_partitions > self._partitions_max:
            if not self._close_unused(session.used_at):
                self._end(session)

    def _end(self, session: FetchSession) -> NoReturn:
        """Closes the session. The error makes its consumer start again, without a session."""
        self.close(session.id)
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {session.id} has no room")

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.held_partitions -= len(session.partitions)

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._chance.below(_ID_LIMIT)
            if session_id not in self._sessions:
                return session_id
