"""DescribeTransactions, version 0: the state of transactional ids, with the partitions of open transactions.

An id that is named twice is described once. Kafka describes it twice, but then a short request could make a response of
any size.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.handlers.coordinator_answers import Gathering
from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tailrace.server.request_context import RequestContext

from .transaction_host import TransactionHost


def handle(host: TransactionHost, context: RequestContext, request: DescribeTransactionsRequest) -> None:
    def response(described: list[TransactionState]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(transaction_states=described)

    gathering = Gathering(context, response)
    for transactional_id in dict.fromkeys(request.transactional_ids):
        _describe(host, transactional_id, gathering)
    gathering.start()


def _describe(host: TransactionHost, transactional_id: str, gathering: Gathering) -> None:
    def refused(error: KafkaError) -> TransactionState:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)

    def call(coordinator: TransactionCoordinator, moment: Moment) -> None:
        coordinator.output.respond(waiter, coordinator.describe(transactional_id))

    waiter: Waiter = gathering.part(refused)
    host.transactions.ask(transactional_id, waiter, call)
