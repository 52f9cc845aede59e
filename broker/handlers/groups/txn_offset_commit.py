"""TxnOffsetCommit, versions 0–5: offsets that take effect when a transaction commits.

- v3 and later name the member, so that a member that has left the group is fenced (KIP-447). v5 is sent by producers
  that do not add the group to their transactions themselves: the partition of `__consumer_offsets` is added here.
- The first commit of a transaction waits until the coordinator of the transaction has confirmed that it is open. Then
  the log shows that it is open, until its marker. Meanwhile the connection handles no other request.
- Errors of the coordinator of the transaction are reported as COORDINATOR_LOAD_IN_PROGRESS, which all clients retry
  without looking for another coordinator of the group; Kafka does so for NETWORK_EXCEPTION alone.
- Up to v1 clients do not expect COORDINATOR_LOAD_IN_PROGRESS and get COORDINATOR_NOT_AVAILABLE.
- A request of more than 8 MiB is refused with INVALID_COMMIT_OFFSET_SIZE, as in OffsetCommit.
"""

from collections.abc import Coroutine

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.transactions.markers.verifications import Verification
from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.server.request_context import RequestContext

from .group_host import TransactionalGroupHost

ADDS_PARTITION_FROM = 5
"""The first version whose clients leave it to the coordinator of the group to add its partition, as TV2 of KIP-890."""
KNOWS_ABORTABLE_FROM = 4
"""The first version whose clients know TRANSACTION_ABORTABLE."""
KNOWS_LOADING_FROM = 2
"""The first version whose clients expect COORDINATOR_LOAD_IN_PROGRESS."""

_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""The errors of a coordinator of transactions that pass."""


def handle(
    host: TransactionalGroupHost, context: RequestContext, request: TxnOffsetCommitRequest
) -> Coroutine[object, object, None] | None:
    def refused(error: KafkaError) -> TxnOffsetCommitResponse:
        code = error.code
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < KNOWS_LOADING_FROM:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        topics = [
            TxnOffsetCommitResponseTopic(
                topic.name, [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    waiter: Waiter = Responding(context, refused)
    try:
        replica = host.groups.replica_of(request.group_id)
        _check_epoch(replica, request)
    except KafkaError as error:
        waiter.refuse(error)
        return None
    if not _is_open(replica, request):
        return _confirm(host, context.api_version, request, replica, waiter)
    _commit(host, context.api_version, request, replica, waiter, None)
    return None


async def _confirm(
    host: TransactionalGroupHost, api_version: int, request: TxnOffsetCommitRequest, replica: Replica, waiter: Waiter
) -> None:
    """Commits the offsets if the coordinator of the transaction confirms that it is open."""
    adds = api_version >= ADDS_PARTITION_FROM
    verification = host.verifications.begin(replica, request.producer_id, raises_epochs=adds)
    partition = TopicPartition(replica.topic, replica.partition)
    try:
        codes = await host.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({partition}),
            verify_only=not adds,
        )
        code = codes.get(partition, ErrorCode.INVALID_TXN_STATE)
        if code == ErrorCode.NONE:
            _commit(host, api_version, request, replica, waiter, verification)
        else:
            waiter.refuse(refusal(code, api_version))
    except KafkaError as error:
        waiter.refuse(refusal(error.code, api_version))
    finally:
        host.verifications.end(verification)
    host.end_turn()


def _commit(
    host: TransactionalGroupHost,
    api_version: int,
    request: TxnOffsetCommitRequest,
    replica: Replica,
    waiter: Waiter,
    confirmed: Verification | None,
) -> None:
    def call(coordinator: Coordinator, moment: Moment) -> None:
        _check_transaction(replica, request, confirmed)
        coordinator.offsets.commit_in_transaction(request, api_version, waiter, moment)

    host.groups.ask(request.group_id, waiter, call)


def _check_transaction(replica: Replica, request: TxnOffsetCommitRequest, confirmed: Verification | None) -> None:
    """Raises KafkaError unless the offsets belong to an open transaction, or may open it in this partition."""
    _check_epoch(replica, request)
    if _is_open(replica, request):
        return
    if confirmed is not None and not confirmed.still_holds_for(replica):
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "another coordinator may have ended the transaction")
    if confirmed is None or confirmed.is_void:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE, f"producer {request.producer_id} has no transaction with this group"
        )


def _check_epoch(replica: Replica, request: TxnOffsetCommitRequest) -> None:
    """Raises KafkaError if the log has a newer epoch of the producer."""
    epoch = replica.log.producers.epoch(request.producer_id)
    if epoch is not None and request.producer_epoch < epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {request.producer_id} is at epoch {epoch}, and {request.producer_epoch} is over",
        )


def _is_open(replica: Replica, request: TxnOffsetCommitRequest) -> bool:
    """Returns whether the log has the open transaction to which the offsets belong."""
    producers = replica.log.producers
    return (
        producers.open_transaction(request.producer_id) is not None
        and producers.epoch(request.producer_id) == request.producer_epoch
    )


def refusal(code: ErrorCode, api_version: int) -> KafkaError:
    """Returns the error for a producer whose transaction its coordinator did not confirm, in terms that its version
    knows."""
    if code in _RETRIABLE:
        return KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the coordinator did not confirm the transaction: {code.name}"
        )
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "a newer producer has the same transactional id")
    if code == ErrorCode.TRANSACTION_ABORTABLE and api_version < KNOWS_ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    return KafkaError(code, f"the coordinator did not confirm the transaction: {code.name}")
