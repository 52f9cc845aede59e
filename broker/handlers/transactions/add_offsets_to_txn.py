"""AddOffsetsToTxn, versions 0–4: a producer is going to commit offsets of a group in its transaction.

The partition of `__consumer_offsets` to which the group belongs becomes part of the transaction. Before v2, a fenced
producer gets INVALID_PRODUCER_EPOCH.
"""

from contextlib import suppress

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.server.handlers.find_coordinator import groups_topic
from tailrace.server.request_context import Reply, RequestContext

from .transaction_host import AddOffsetsHost, TransactionHost
from .transaction_responses import REQUEST_BYTES, client_of


def handle(host: AddOffsetsHost, context: RequestContext, request: AddOffsetsToTxnRequest) -> Reply:
    if GROUPS_TOPIC not in host.cluster.topics:
        return _create_and_handle(host, context, request)
    _handle(host, context, request)
    return None


async def _create_and_handle(host: AddOffsetsHost, context: RequestContext, request: AddOffsetsToTxnRequest) -> None:
    """Creates the topic first. A producer may be the first client that uses groups."""
    with suppress(KafkaError):  # then the coordinator refuses the request, and the client retries
        await host.create_topics([groups_topic(host)])
    _handle(host, context, request)
    host.end_turn()


def _handle(host: TransactionHost, context: RequestContext, request: AddOffsetsToTxnRequest) -> None:
    version, client = context.api_version, client_of(context)

    def refused(error: KafkaError) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=error.code)

    def call(coordinator: TransactionCoordinator, moment: Moment) -> None:
        coordinator.add_offsets(request, version, client, waiter, moment)

    waiter: Waiter = Responding(context, refused)
    host.transactions.ask(request.transactional_id, waiter, call, REQUEST_BYTES)
