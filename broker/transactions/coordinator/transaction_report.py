"""What DescribeTransactions and ListTransactions tell of the transactional ids of one coordinator."""

from collections.abc import Callable, Iterable

from tailrace.broker.coordination.moment import Moment
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages import describe_transactions, list_transactions

from .transaction_table import TransactionalId

_PATTERN_MEMORY_BYTES_MAX = 1 << 20


def describe(entry: TransactionalId) -> describe_transactions.TransactionState:
    transaction = entry.transaction
    by_topic: dict[str, list[int]] = {}
    partitions = entry.unwritten if transaction.state.is_ending else transaction.partitions
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return describe_transactions.TransactionState(
        transactional_id=entry.transactional_id,
        transaction_state=transaction.state.kafka_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[describe_transactions.TopicData(topic, numbers) for topic, numbers in by_topic.items()],
    )


def list_ids(
    entries: Iterable[TransactionalId], request: list_transactions.ListTransactionsRequest, moment: Moment
) -> list[list_transactions.TransactionState]:
    """Lists the transactional ids that pass all filters of the request. Unknown states are ignored.

    Raises KafkaError if the pattern cannot be understood.
    """
    matches = _matcher(request.transactional_id_pattern)
    producer_ids = set(request.producer_id_filters)
    state_names = set(request.state_filters)
    return [
        list_transactions.TransactionState(
            entry.transactional_id, transaction.producer_id, transaction.state.kafka_name
        )
        for entry in entries
        for transaction in (entry.transaction,)
        if (not producer_ids or transaction.producer_id in producer_ids)
        and (not state_names or transaction.state.kafka_name in state_names)
        and (request.duration_filter < 0 or moment.now_ms - transaction.started_ms > request.duration_filter)
        and matches(entry.transactional_id)
    ]


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda name: True
    import re2  # imported late, because it loads slowly and few requests need it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PATTERN_MEMORY_BYTES_MAX
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        message = "the pattern of transactional ids is not a valid regular expression"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
    return lambda name: compiled.fullmatch(name) is not None
