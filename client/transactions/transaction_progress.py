"""The records of one transactional producer, and which partitions its open transaction has. Decides; does not wait.

    progress.on_initialized(name)
    progress.add(partition, waiting)                 for each record
    progress.to_add                                  partitions to add to the transaction before their batches
    progress.batches()                               to send; they stay the same until they are answered
    progress.on_answer(partition, answer)
    progress.on_ended()                              when the coordinator has committed

Sequence numbers go on over transactions of one producer epoch. After an error that loses the transaction nothing goes
on: `lose` forgets all records, and only `on_initialized` begins again.
"""

from collections.abc import Mapping
from enum import Enum, auto

from tailrace.client.log_client import ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.outgoing_line import OutgoingLine, Waiting
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.protocol.batches.compression import Compression

from .transaction_errors import Verdict, lost_by, verdict_of


class Phase(Enum):
    """How far a producer is."""

    LOST = auto()
    """It must be initialized: it is new, or its transaction was lost."""
    READY = auto()
    """It has no transaction."""
    OPEN = auto()
    """The coordinator has added partitions or a group to its transaction."""


Answer = int | RefusedError | UnreachableError | None
"""The offset of a batch, None if the leader had it already, or why it was not appended."""


class TransactionProgress:
    """What is known about the transactions of one producer."""

    def __init__(self, compression: Compression = Compression.NONE) -> None:
        self.phase = Phase.LOST
        self._compression = compression
        self._name: ProducerName | None = None
        self._lines: dict[Partition, OutgoingLine] = {}
        self._in_transaction: set[Partition] = set()
        self._groups: set[str] = set()

    @property
    def name(self) -> ProducerName:
        """The producer id and epoch."""
        assert self._name is not None, "the producer is initialized before it sends"
        return self._name

    @property
    def is_open(self) -> bool:
        return self.phase is Phase.OPEN

    def on_initialized(self, name: ProducerName) -> None:
        """Begins again with a new epoch, whose sequence numbers begin at 0."""
        self.lose()
        self._name, self.phase = name, Phase.READY

    def lose(self) -> None:
        """Forgets the transaction and all its records."""
        self.phase, self._name = Phase.LOST, None
        self._lines.clear()
        self._in_transaction.clear()
        self._groups.clear()

    # records

    def add(self, partition: Partition, waiting: Waiting) -> None:
        """Adds a record to a partition."""
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = OutgoingLine(partition, self._compression, is_transactional=True)
            line.name = self.name
        line.add(waiting)

    @property
    def has_records(self) -> bool:
        """Whether records are not answered yet."""
        return any(line.has_records for line in self._lines.values())

    @property
    def to_add(self) -> list[Partition]:
        """The partitions with records that the transaction does not have yet."""
        return [each for each, line in self._lines.items() if line.has_records and each not in self._in_transaction]

    def on_added(self, partition: Partition) -> None:
        """Notes that a partition is part of the transaction, which begins it."""
        self.phase = Phase.OPEN
        self._in_transaction.add(partition)

    def on_not_added(self, partition: Partition, refused: RefusedError) -> None:
        """Refuses all records of a partition. Raises TransactionLostError if the transaction cannot go on."""
        if verdict_of(refused.code) is not Verdict.REFUSE:
            raise lost_by(refused)
        self._lines[partition].refuse(refused)

    def batches(self) -> Mapping[Partition, bytearray]:
        """Returns a batch for each partition that has records and is in the transaction."""
        return {
            each: line.batch()
            for each, line in self._lines.items()
            if line.has_records and each in self._in_transaction
        }

    def on_answer(self, partition: Partition, answer: Answer) -> bool:
        """Takes the answer to a batch; returns whether the batch was appended or refused, and not lost on the way.

        Raises TransactionLostError if the transaction cannot go on.
        """
        line = self._lines[partition]
        if isinstance(answer, UnreachableError):
            return False
        if not isinstance(answer, RefusedError):
            line.on_appended()
            return True
        match verdict_of(answer.code):
            case Verdict.ASK_AGAIN:
                return False
            case Verdict.REFUSE:
                line.on_refused(answer)
                return True
            case _:
                raise lost_by(answer)

    # the end

    def has_group(self, group: str) -> bool:
        """Whether the offsets of a group are part of the transaction."""
        return group in self._groups

    def on_group_added(self, group: str) -> None:
        """Notes that the offsets of a group are part of the transaction, which begins it."""
        self.phase = Phase.OPEN
        self._groups.add(group)

    def on_ended(self) -> None:
        """Notes that the coordinator has decided to commit. The next transaction begins with the next record."""
        assert not self.has_records, "a transaction ends when its records are answered"
        self.phase = Phase.READY
        self._in_transaction.clear()
        self._groups.clear()
