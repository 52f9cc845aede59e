"""ExplainTransaction, version 0, not in Kafka: which client uses a transactional id, and who coordinates it since when.

DescribeTransactions tells the rest. The response does not wait for records to be committed, because that may be what
the transaction waits for.
"""

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.internal.explain_transaction import ExplainTransactionRequest, ExplainTransactionResponse
from tailrace.server.request_context import RequestContext

from .transaction_host import TransactionHost


def handle(host: TransactionHost, context: RequestContext, request: ExplainTransactionRequest) -> None:
    def refused(error: KafkaError) -> ExplainTransactionResponse:
        return ExplainTransactionResponse(error.code, error.message)

    def call(coordinator: TransactionCoordinator, moment: Moment) -> None:
        entry = coordinator.ids.get(request.transactional_id)
        if entry is None:
            message = f"there is no transactional id {request.transactional_id}"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, message)
        partition = next(each for each in host.transactions.loaded() if each.coordinator is coordinator)
        response = ExplainTransactionResponse(
            now_ms=moment.now_ms,
            partition=partition.replica.partition,
            epoch=partition.epoch,
            loaded_ms=partition.loaded_ms,
        )
        if entry.client is not None:
            response.client_id, response.host = entry.client.client_id, entry.client.address
        coordinator.output.respond_at_once(waiter, response)

    waiter = Responding(context, refused)
    host.transactions.ask(request.transactional_id, waiter, call)
