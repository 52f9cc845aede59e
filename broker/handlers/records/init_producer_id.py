"""InitProducerId, versions 0–5: an id for an idempotent producer.

- Without a transactional id the answer is a new producer id at epoch 0, also when the producer names the id and epoch
  it had (v3 and later), as in Kafka. A request that names only one of the two is refused.
- Transactions are not served yet. A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Java,
  librdkafka and kafka-python give up at once on it, while librdkafka retries on the other codes that were tried.
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
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
        if request.transactional_id is not None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served yet")
        if (request.producer_id == NONE) != (request.producer_epoch == NONE):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
        producer_id = await host.producer_ids.next()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=NONE, producer_epoch=NONE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
