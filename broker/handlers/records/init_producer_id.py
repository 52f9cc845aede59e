"""InitProducerId, versions 0–5: an id for an idempotent producer.

- A producer without a transactional id gets a new producer id at epoch 0. As in Kafka, this is so even if it names the
  id and epoch that it had (v3 and later). A request that names only one of the two is refused.
- There are no transactions yet. A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Java,
  librdkafka and kafka-python give up at once on this error, whereas librdkafka retries on the other errors that we
  tried.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.server.request_context import RequestContext

from .record_host import ProducerIdHost

NONE = -1


async def handle(
    host: ProducerIdHost, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    try:
        if request.transactional_id == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if request.transactional_id is not None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served yet")
        if (request.producer_id == NONE) != (request.producer_epoch == NONE):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "a producer id needs an epoch, and an epoch needs a producer id"
            )
        producer_id = await host.producer_ids.next()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
