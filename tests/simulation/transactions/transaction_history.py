"""What clients of transactions did and saw: the input of all rules. Data only, independent of any implementation.

Each value is unique in the whole history. Times are those of one clock. An operation takes place between the time at
which its request was first sent and the time at which its last response came. Offsets are those of records; markers and
other control batches take offsets that no reader is given.
"""

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct, field


class Partition(NamedTuple):
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Outcome(Enum):
    """What a client knows about an operation when it gives up or goes on."""

    OK = "ok"
    """It was acknowledged."""
    FAILED = "failed"
    """It certainly had and will have no effect: refused, and never sent before without a response."""
    UNKNOWN = "unknown"
    """Nobody can tell: no response came, or an earlier attempt got none."""


class Fate(Enum):
    """What must become of a transaction, as far as clients can know."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    EITHER = "either"


class Source(NamedTuple):
    """The input record from which an output was made."""

    group: str
    partition: Partition
    offset: int


class Send(Struct, eq=False):
    """One record that a producer sent; it is listed in the order of sending."""

    partition: Partition
    value: bytes
    began: float
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None
    """The acknowledged offset; None if the outcome is not OK, or if the broker did not tell the offset."""
    ended: float = math.inf
    source: Source | None = None
    """The input, if this is an output of consume-process-produce. There is one output per input and transaction."""
    key: bytes | None = None
    """The key, if later records of the same key supersede the record."""


class SentOffsets(Struct, eq=False):
    """Offsets of a group in a transaction: the next offset to read of each partition."""

    group: str
    offsets: dict[Partition, int]
    outcome: Outcome = Outcome.UNKNOWN


class Ending(Struct, eq=False):
    """An EndTxn, with all of its retries."""

    is_commit: bool
    began: float
    outcome: Outcome = Outcome.UNKNOWN
    ended: float = math.inf


class Transaction(Struct, eq=False):
    """One transaction as its client saw it."""

    producer: "Producer"
    began: float
    expires: float = math.inf
    """When the coordinator may abort it by itself, at the earliest, by any clock."""
    sends: list[Send] = field(default_factory=list)
    offsets: list[SentOffsets] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    """Usually one. A client that gets no response to a commit may abort, or the other way round."""

    @property
    def fate(self) -> Fate:
        """Returns what must become of it. Nothing commits a transaction whose client never asked for it."""
        commits = [each for each in self.endings if each.is_commit]
        if any(each.outcome is Outcome.OK for each in commits):
            return Fate.COMMITTED
        is_aborted = any(each.outcome is Outcome.OK for each in self.endings)
        may_commit = any(each.outcome is Outcome.UNKNOWN for each in commits)
        return Fate.EITHER if may_commit and not is_aborted else Fate.ABORTED

    @property
    def commit_began(self) -> float:
        """The time before which it was certainly not committed."""
        return min((each.began for each in self.endings if each.is_commit), default=math.inf)

    @property
    def end_began(self) -> float:
        """The time before which its client did not end it."""
        return min((each.began for each in self.endings), default=math.inf)

    def __str__(self) -> str:
        return f"transaction {self.producer.transactions.index(self)} of {self.producer}"


class Producer(Struct, eq=False):
    """One process of a producer. Several processes may have one transactional id, one after the other or as zombies."""

    name: str
    transactional_id: str | None = None
    """None for a producer without transactions."""
    is_idempotent: bool = True
    """Whether no record may be there twice; always true with transactions."""
    init_began: float = 0.0
    init_ended: float = math.inf
    """When InitProducerId succeeded; infinite if it did not, or is not known to have done so."""
    init_is_over: float = math.inf
    """From when on InitProducerId can have no further effect; infinite if an attempt got no response, because what was
    sent may still arrive."""
    transactions: list[Transaction] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    """What was sent without a transaction."""

    def all_sends(self) -> Iterator[Send]:
        yield from self.sends
        for transaction in self.transactions:
            yield from transaction.sends

    def __str__(self) -> str:
        return self.name


class Record(NamedTuple):
    offset: int
    value: bytes


class Position(Struct, eq=False):
    """A reader starts at an offset of a partition: a new assignment, or a seek."""

    partition: Partition
    offset: int


class Poll(Struct, eq=False):
    """What a reader got from one partition in one response. Empty responses may be recorded, for what they say."""

    partition: Partition
    records: Sequence[Record]
    began: float
    ended: float
    leader_epoch: int | None = None
    """The epoch of the leader that responded; None if another replica responded, or if it is not known."""
    stable_end: int | None = None
    """The last stable offset in the response."""
    high_watermark: int | None = None
    log_start: int = 0
    """The offset below which the replica that responded had deleted everything."""


class Reader(Struct, eq=False):
    """One process that reads; what happened to it, in order."""

    name: str
    reads_committed: bool
    events: list[Position | Poll] = field(default_factory=list)

    def polls(self) -> Iterator[Poll]:
        return (each for each in self.events if isinstance(each, Poll))


class OffsetRead(Struct, eq=False):
    """The committed offset of a group for one partition, from OffsetFetch with require_stable."""

    group: str
    partition: Partition
    offset: int
    """-1 if there is none."""
    began: float
    ended: float


class Stored(NamedTuple):
    """A record in the final log, with what its batch says."""

    offset: int
    value: bytes
    producer_id: int = -1
    is_transactional: bool = False


class Marker(NamedTuple):
    offset: int
    producer_id: int
    is_commit: bool


class FinalLog(Struct, eq=False):
    """One partition after all faults, when everything has settled."""

    partition: Partition
    committed: Sequence[Record]
    """All that a read_committed reader gets from the beginning."""
    uncommitted: Sequence[Stored]
    """All that a read_uncommitted reader gets from the beginning."""
    markers: Sequence[Marker]
    log_start: int
    stable_end: int
    """The last stable offset, from ListOffsets with read_committed."""
    log_end: int
    """The high watermark, from ListOffsets with read_uncommitted."""
    is_compacted: bool = False
    """Whether compaction may remove each record that has a later committed one of the same key, and each aborted one.
    What is read first may be removed before the second reading: `committed` was read before `uncommitted`."""
    began: float = math.inf
    """When the final reading began. A delayed request may still append something afterwards."""


class TransactionHistory(Struct, eq=False):
    producers: list[Producer] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)
    final_logs: list[FinalLog] = field(default_factory=list)
    final_offsets: dict[tuple[str, Partition], int] = field(default_factory=dict)
    """The committed offset of each group and partition in the end; -1 or no entry if there is none."""

    def transactions(self) -> Iterator[Transaction]:
        for producer in self.producers:
            yield from producer.transactions

    def sends(self) -> Iterator[tuple[Send, Producer, Transaction | None]]:
        for producer in self.producers:
            for send in producer.sends:
                yield send, producer, None
            for transaction in producer.transactions:
                for send in transaction.sends:
                    yield send, producer, transaction

    def final_log(self, partition: Partition) -> FinalLog | None:
        return next((each for each in self.final_logs if each.partition == partition), None)


class Anomaly(NamedTuple):
    """A rule that a history breaks, with a sentence for people."""

    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.sentence}"
