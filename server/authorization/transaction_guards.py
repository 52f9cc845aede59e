"""The guards of the APIs of producers and transactions that need more than one check."""

from collections.abc import Callable, Iterable

from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from tailrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tailrace.security.acls.acl_codes import CLUSTER_NAME
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Row

FROM_SPUS = 4
"""The first version of AddPartitionsToTxn that servers send to each other."""
NONE = -1


def init_producer_id(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: InitProducerIdRequest
) -> Reply:
    of_transaction, idempotent = row.checks
    if request.transactional_id is None:
        check, name = idempotent, CLUSTER_NAME
    else:
        check, name = of_transaction, request.transactional_id
    if access.allows(check, name):
        return handle(context, request)
    return InitProducerIdResponse(error_code=check.error, producer_id=NONE, producer_epoch=NONE)


def add_partitions(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Reply:
    """Lets partitions be added if all of them may be: the others then get OPERATION_NOT_ATTEMPTED."""
    of_transaction, of_topic, of_server = row.checks
    if context.api_version >= FROM_SPUS:
        if access.allows(of_server, CLUSTER_NAME):
            return handle(context, request)
        return AddPartitionsToTxnResponse(error_code=of_server.error)
    topics = request.v3_and_below_topics
    if not access.allows(of_transaction, request.v3_and_below_transactional_id):
        return _added(topics, lambda topic, partition: of_transaction.error)
    denied = {
        topic.name for topic in topics if topic.name in INTERNAL_TOPICS or not access.allows(of_topic, topic.name)
    }
    if not denied:
        return handle(context, request)

    def code_of(topic: str, partition: int) -> ErrorCode:
        if topic in denied:
            return of_topic.error
        if access.cluster.partition(topic, partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return _added(topics, code_of)


def _added(
    topics: Iterable[AddPartitionsToTxnTopic], code_of: Callable[[str, int], ErrorCode]
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [AddPartitionsToTxnPartitionResult(each, code_of(topic.name, each)) for each in topic.partitions],
            )
            for topic in topics
        ]
    )


def describe_transactions(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: DescribeTransactionsRequest
) -> Reply:
    described, of_topic = row.checks
    allowed, denied = access.split(described, request.transactional_ids, lambda each: each)
    rows = [TransactionState(described.error, each) for each in dict.fromkeys(denied)]
    if not allowed:
        return DescribeTransactionsResponse(transaction_states=rows)
    request.transactional_ids = allowed

    def amend(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics, _ = access.split(of_topic, state.topics, lambda each: each.topic)
        response.transaction_states.extend(rows)
        return response

    context.amend = amend
    return handle(context, request)


def list_transactions(
    row: Row, access: Access, handle: Handle, context: RequestContext, request: ListTransactionsRequest
) -> Reply:
    (check,) = row.checks

    def amend(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states, _ = access.split(
            check, response.transaction_states, lambda each: each.transactional_id
        )
        return response

    context.amend = amend
    return handle(context, request)
