"""CreatePartitions, versions 0–3: handed to the Streaming Controller; the partitions are known here when the answer
leaves.

- What the controller makes of each topic, `server/handlers/create_partitions.py` says.
- A controller that does not answer within the timeout (at least a second, at most half a minute) is REQUEST_TIMED_OUT
  for each topic; it may have created the partitions all the same.
"""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tailrace.server.request_context import EncodedBody, RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(
    spu: "Spu", context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | EncodedBody:
    try:
        return await spu.forwarding.forward(context, request, request.timeout_ms)
    except KafkaError as error:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
                for topic in request.topics
            ]
        )
