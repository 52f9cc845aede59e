"""EndTxn, versions 0–5: commits or aborts a transaction.

- The response leaves when the decision is committed in `__transaction_state`. Markers are written after that. The next
  request of the producer waits for them if it has to; Kafka refuses it with CONCURRENT_TRANSACTIONS.
- v5 ends transactions of KIP-890: each end gives the producer its next epoch, or a new producer id.
- Before v5, a delayed EndTxn of one transaction looks like an EndTxn of the next one. It is refused if it arrives on a
  connection that is older than the newest one of the transactional id. Kafka accepts it.
- Before v2, a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import ProducerId
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.server.request_context import RequestContext

from .transaction_host import TransactionHost
from .transaction_responses import REQUEST_BYTES, client_of


def handle(host: TransactionHost, context: RequestContext, request: EndTxnRequest) -> None:
    version, client = context.api_version, client_of(context)

    def refused(error: KafkaError) -> EndTxnResponse:
        return EndTxnResponse(error_code=error.code)

    def call(coordinator: TransactionCoordinator, asking: Waiter, spare_id: ProducerId | None, moment: Moment) -> None:
        coordinator.end(request, version, client, spare_id, asking, moment)

    host.transactions.ask_with_id(request.transactional_id, Responding(context, refused), call, REQUEST_BYTES)
