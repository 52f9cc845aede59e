"""DeleteTopics, versions 1–6: handed to the Streaming Controller; the topics are gone from here when the answer leaves.

- What the controller makes of each topic, `server/handlers/delete_topics.py` says.
- A controller that does not answer within the timeout (at least a second, at most half a minute) is REQUEST_TIMED_OUT
  for each topic; it may have deleted them all the same.
"""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tailrace.server.request_context import EncodedBody, RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(
    spu: "Spu", context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | EncodedBody:
    try:
        return await spu.forwarding.forward(context, request, request.timeout_ms)
    except KafkaError as error:
        # Versions before 6 fill the one list, later ones the other.
        asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(
                    name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
                )
                for topic in asked
            ]
        )
