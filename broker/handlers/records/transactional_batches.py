"""Produce requests with transactional batches: which partitions the coordinator has to confirm, and what it answers.

The first batch of a transaction in a partition waits for the transaction's coordinator (KIP-890). A producer that sends
Produce v12 or newer relies on that: the coordinator adds the partition to the transaction. Older producers have added
it themselves, and the coordinator only confirms it. Without this, a batch that arrives after the end of its transaction
would open another one that never ends. Batches that follow find the transaction open in the log.

All partitions of a request are confirmed by one question. A coordinator on this SPU usually responds at once. While the
request waits, the connection handles no other one, so that requests in flight stay in order.
"""

from collections.abc import Mapping
from uuid import UUID

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.transactions.markers.verifications import PartitionQuestion, Verification
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.batches.record_batch import TRANSACTIONAL, BatchHeader, read_header
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.produce import ProduceRequest

from .produce_steps import TOPIC_IDS_FROM, find_writable, is_in_transaction
from .record_host import TransactionalProduceHost

ADDS_PARTITIONS_FROM = 12
"""The first version of Produce that adds partitions to transactions, which is TV2 of KIP-890."""
KNOWS_ABORTABLE_FROM = 11
"""The first version of Produce whose clients know TRANSACTION_ABORTABLE."""

_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""The errors between this SPU and the coordinator. Clients do not expect them in the response to a Produce request."""

_Place = tuple[str | UUID, int]
"""A partition as the client names it: topic, by name or id, and number."""


class Confirmations:
    """What one produce request asks the coordinator of its transaction, and what the coordinator responded."""

    def __init__(self, transactional_id: str, api_version: int) -> None:
        self.transactional_id = transactional_id
        self._api_version = api_version
        self._producer: tuple[int, int] | None = None
        self._verifications: dict[_Place, tuple[TopicPartition, Verification]] = {}
        self._refusals: dict[_Place, KafkaError] = {}
        self._refusal: KafkaError | None = None
        """Why the whole request is refused."""
        self._question: PartitionQuestion | None = None
        self._held_bytes = 0
        """The size of the records, while they wait."""

    @property
    def is_question(self) -> bool:
        """Whether the coordinator has to be asked."""
        return bool(self._verifications) and self._refusal is None

    def look_at(self, host: TransactionalProduceHost, request: ProduceRequest) -> None:
        """Finds the batches in the request that the coordinator has to confirm."""
        by_id = self._api_version >= TOPIC_IDS_FROM
        for topic in request.topic_data:
            name: str | UUID = topic.topic_id if by_id else topic.name
            for data in topic.partition_data:
                try:
                    header = None if data.records is None else read_header(data.records)
                    if header is None or not header.attributes & TRANSACTIONAL:
                        continue
                    self._take_producer(header)
                    replica = find_writable(host, name, data.index, request.acks)
                    if self._needs_confirmation(replica, header):
                        self._begin(host, (name, data.index), replica, header)
                except KafkaError:
                    continue  # the steps of the request raise it again

    def _take_producer(self, header: BatchHeader) -> None:
        producer = header.producer_id, header.producer_epoch
        if self._producer is None:
            self._producer = producer
        elif self._producer != producer:
            self._refusal = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional batches come from more than one producer"
            )

    def _needs_confirmation(self, replica: Replica, header: BatchHeader) -> bool:
        producers = replica.log.producers
        if is_in_transaction(producers, header):
            return False
        try:
            return producers.check(header) is None
        except KafkaError:
            return True  # as in Kafka, the coordinator comes first

    def _begin(self, host: TransactionalProduceHost, place: _Place, replica: Replica, header: BatchHeader) -> None:
        if place in self._verifications:
            return
        raises_epochs = self._api_version >= ADDS_PARTITIONS_FROM
        verification = host.verifications.begin(replica, header.producer_id, raises_epochs=raises_epochs)
        self._verifications[place] = TopicPartition(replica.topic, replica.partition), verification

    def hold(self, host: TransactionalProduceHost, request: ProduceRequest) -> bool:
        """Takes a copy of the records, because the next turn overwrites the buffer of this one. Returns False, and
        refuses the request, if too many records wait already."""
        if not host.verifications.has_room:
            self._refusal = KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "too many records wait for the coordinators of their transactions"
            )
            return False
        for topic in request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = bytearray(data.records)
                    self._held_bytes += len(data.records)
        host.verifications.held_bytes += self._held_bytes
        return True

    def ask(self, host: TransactionalProduceHost) -> bool:
        """Asks the coordinator. Returns whether it has responded; otherwise `wait` has to be called."""
        assert self._producer is not None
        producer_id, producer_epoch = self._producer
        self._question = host.transactions.ask_to_add(
            self.transactional_id,
            producer_id,
            producer_epoch,
            self._asked(),
            verify_only=self._api_version < ADDS_PARTITIONS_FROM,
        )
        if self._question.added is None:
            return False
        self._take(self._question.added)
        return True

    async def wait(self) -> None:
        """Waits for the response of the coordinator."""
        assert self._question is not None
        try:
            self._take(await self._question.wait())
        except KafkaError as error:
            self._take(dict.fromkeys(self._asked(), error.code))

    def _asked(self) -> frozenset[TopicPartition]:
        return frozenset(partition for partition, _ in self._verifications.values())

    def _take(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        """Keeps what the coordinator refuses."""
        for place, (partition, _) in self._verifications.items():
            code = codes.get(partition, ErrorCode.INVALID_TXN_STATE)
            if code != ErrorCode.NONE:
                self._refusals[place] = refusal(code, self._api_version)

    def end(self, host: TransactionalProduceHost) -> None:
        """Ends the wait for the coordinator."""
        for _, verification in self._verifications.values():
            host.verifications.end(verification)
        host.verifications.held_bytes -= self._held_bytes
        self._held_bytes = 0

    def find(self, topic: str | UUID, partition: int) -> Verification | None:
        """Returns the confirmation for a partition; None if it needed none. Raises KafkaError if it was refused."""
        if self._refusal is not None:
            raise self._refusal
        place = topic, partition
        error = self._refusals.get(place)
        if error is not None:
            raise error
        found = self._verifications.get(place)
        return None if found is None else found[1]


def refusal(code: ErrorCode, api_version: int) -> KafkaError:
    """Returns the error for a producer whose partition the coordinator did not confirm, in terms that its version
    knows."""
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer producer has the same transactional id")
    if code == ErrorCode.TRANSACTION_ABORTABLE and api_version < KNOWS_ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code in _COORDINATOR_ERRORS or (
        code == ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDS_PARTITIONS_FROM
    ):
        # Older clients do not retry other errors correctly, and this one makes no client ask for metadata.
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"the coordinator of the transaction did not confirm it: {code.name}"
        )
    if code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
        return KafkaError(code, "the partition was not added to the transaction")
    return KafkaError(code, f"the coordinator refused the transaction: {code.name}")
