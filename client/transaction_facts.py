"""Facts about transactions: what their coordinators know, and what the leaders of partitions know."""

from collections.abc import Iterable

from msgspec import Struct

from .log_facts import Partition

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT = "Empty", "Ongoing", "PrepareCommit", "PrepareAbort"
STATES = (
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARE_ABORT,
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
"""The states of a transactional id, as Kafka names them."""


class ListedTransaction(Struct, frozen=True):
    """A transactional id in a list."""

    id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionClientName(Struct, frozen=True):
    """The client that used a transactional id last, and who coordinates the id."""

    client_id: str | None
    host: str | None
    partition: int
    """The partition of `__transaction_state` that stores the transactional id."""
    epoch: int
    loaded_ms: int

    @property
    def text(self) -> str:
        """The client and its host; empty if the coordinator has seen none."""
        if self.client_id is None:
            return ""
        return f"{self.client_id or 'without a client.id'} at {(self.host or 'an unknown host').removeprefix('/')}"


class Transaction(Struct, frozen=True):
    """A transactional id, as its coordinator describes it."""

    id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int | None
    """The time at which the open or ending transaction began; None if there is none."""
    partitions: tuple[Partition, ...]
    """The partitions of the open transaction, or those whose markers are not written yet."""
    coordinator: int
    client: TransactionClientName | None = None
    """None if the coordinator does not tell, as Apache Kafka."""

    @property
    def is_open(self) -> bool:
        """Whether its producer may write more."""
        return self.state == ONGOING

    @property
    def is_ending(self) -> bool:
        """Whether its end is decided, and markers are being written."""
        return self.state in (PREPARE_COMMIT, PREPARE_ABORT)

    @property
    def deadline_ms(self) -> int | None:
        """The time at which the coordinator aborts the open transaction; None if it is not open."""
        return self.began_ms + self.timeout_ms if self.is_open and self.began_ms is not None else None


class OpenTransaction(Struct, frozen=True):
    """A transaction that is open in one partition, as the leader of the partition sees it."""

    partition: Partition
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    newest_ms: int
    """The timestamp of the producer's last record in the partition."""


class StableEnd(Struct, frozen=True):
    """How far a partition can be read."""

    stable: int
    """The last stable offset: readers with `read_committed` see what is before it."""
    committed: int
    """The high watermark: all other readers see what is before it."""


class Holder(Struct, frozen=True):
    """An open transaction in a partition, and what a coordinator knows about it."""

    open: OpenTransaction
    transaction: Transaction | None
    """The transactional id of the producer; None if no coordinator knows the producer."""

    @property
    def is_hanging(self) -> bool:
        """Whether no coordinator will ever end the transaction in this partition."""
        of = self.transaction
        return of is None or not (of.is_open or of.is_ending) or self.open.partition not in of.partitions


def holders(opened: Iterable[OpenTransaction], transactions: Iterable[Transaction]) -> list[Holder]:
    """Says who holds each open transaction, in the order of partitions and offsets."""
    known: dict[int, list[Transaction]] = {}
    for each in transactions:
        known.setdefault(each.producer_id, []).append(each)
    found = []
    for one in opened:
        candidates = [Holder(one, of) for of in known.get(one.producer_id, ())] or [Holder(one, None)]
        found.append(next((each for each in candidates if not each.is_hanging), candidates[0]))
    return sorted(found, key=lambda holder: (holder.open.partition, holder.open.first_offset))
