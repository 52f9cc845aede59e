"""Transactional batches that wait until the coordinator has verified their transaction, and what ends their wait early.

The coordinator confirms that a transaction is open. Before the batch is appended, the transaction may end. The batch
would then open a transaction that no coordinator knows, and hold up all readers of committed records. A marker that is
written in the meantime therefore makes the confirmation void.
"""

from collections.abc import Mapping
from typing import Protocol

from tailrace.broker.replicas.replica import Replica
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch
from tailrace.storage.directory.checkpoints import ReplicaKey

HELD_BYTES_MAX = 64 * 2**20
"""The size of all records that wait for coordinators. The last one may exceed it."""


class PartitionQuestion(Protocol):
    """Partitions that the coordinator of a transaction was asked to add, or whether it has them."""

    @property
    def added(self) -> Mapping[TopicPartition, ErrorCode] | None:
        """The coordinator's response for each partition, if it has come already."""

    async def wait(self) -> Mapping[TopicPartition, ErrorCode]:
        """Waits for the response. Raises KafkaError if there is none."""


class TransactionPartitions(Protocol):
    """The partitions that take part in transactions, as their coordinators know them."""

    def ask_to_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        verify_only: bool,
    ) -> PartitionQuestion:
        """Does what `add_partitions` does. A coordinator on this SPU usually responds before this returns."""

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        verify_only: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Asks the coordinator to add partitions to the producer's transaction, or whether it has them.

        Returns the coordinator's response for each partition. Raises KafkaError if there is no response.
        """


class Verification:
    """One batch that waits for its coordinator."""

    __slots__ = ("epoch", "is_void", "key", "producer_id", "raises_epochs")

    def __init__(self, replica: Replica, producer_id: int, *, raises_epochs: bool) -> None:
        self.key: ReplicaKey = replica.key
        self.epoch: Epoch = replica.spec.epoch
        """The leader epoch in which the wait began. Another leader may have written markers after it."""
        self.producer_id = producer_id
        self.raises_epochs = raises_epochs
        """Whether each transaction of the producer has an epoch of its own (KIP-890).

        The log then refuses a batch that comes after the end of its transaction, and no marker makes the confirmation
        void. The marker of the transaction before this one may be written during the wait.
        """
        self.is_void = False
        """Whether a marker of the producer was written after the wait began."""

    def still_holds_for(self, replica: Replica) -> bool:
        """Returns whether the replica is the same one and still leads in the same epoch."""
        return replica.key == self.key and replica.spec.epoch == self.epoch


class Verifications:
    """All verifications on this SPU that wait. Their number is bounded by that of the connections."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[ReplicaKey, int], list[Verification]] = {}
        """The verifications that a marker makes void, by replica and producer id."""
        self.held_bytes = 0
        """The size of the records that wait."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def has_room(self) -> bool:
        """Whether more records may wait."""
        return self.held_bytes < HELD_BYTES_MAX

    def begin(self, replica: Replica, producer_id: int, *, raises_epochs: bool) -> Verification:
        """Begins to watch for markers of the producer."""
        verification = Verification(replica, producer_id, raises_epochs=raises_epochs)
        if not raises_epochs:
            self._waiting.setdefault((verification.key, producer_id), []).append(verification)
        return verification

    def end(self, verification: Verification) -> None:
        """Stops watching, because the batch was appended or refused."""
        place = verification.key, verification.producer_id
        waiting = self._waiting.get(place, [])
        if verification in waiting:
            waiting.remove(verification)
            if not waiting:
                del self._waiting[place]

    def on_marker(self, replica: Replica, producer_id: int) -> None:
        """Makes verifications void because a marker of the producer was written."""
        for verification in self._waiting.pop((replica.key, producer_id), ()):
            verification.is_void = True
