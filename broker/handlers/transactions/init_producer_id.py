"""InitProducerId, versions 0–5: an id for an idempotent or transactional producer.

- A producer without a transactional id gets a new producer id at epoch 0. As in Kafka, this is so even if it names the
  id and epoch that it had (v3 and later). A request that names only one of the two is refused.
- A producer with a transactional id gets the id and the next epoch from the coordinator of its transactions. An open
  transaction is aborted first. The response waits until its markers are written, for up to five seconds; Kafka refuses
  the request with CONCURRENT_TRANSACTIONS.
- v6 of Kafka has the two-phase commit of KIP-939, which we do not have.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.broker.handlers.records.record_host import ProducerIdHost
from tailrace.broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import ProducerId
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.server.request_context import Reply, RequestContext

from .transaction_responses import REQUEST_BYTES, client_of

NONE = -1


def handle(host: ProducerIdHost, context: RequestContext, request: InitProducerIdRequest) -> Reply:
    if request.transactional_id is None:
        return _allocate(host, request)
    if request.transactional_id == "":
        return _refused(KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty"))
    client = client_of(context)

    def call(coordinator: TransactionCoordinator, asking: Waiter, spare_id: ProducerId | None, moment: Moment) -> None:
        coordinator.init_producer(request, context.api_version, client, spare_id, asking, moment)

    host.transactions.ask_with_id(request.transactional_id, Responding(context, _refused), call, REQUEST_BYTES)
    return None


async def _allocate(host: ProducerIdHost, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Gives a new id to a producer without transactions."""
    try:
        if (request.producer_id == NONE) != (request.producer_epoch == NONE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a producer id needs an epoch, and an epoch needs a producer id"
            )
        producer_id = await host.producer_ids.next()
    except KafkaError as error:
        return _refused(error)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
