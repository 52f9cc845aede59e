"""ElectLeaders, versions 0–2: handed to the Streaming Controller; the leaders are known here when the answer leaves.

- What the controller makes of each partition, `server/handlers/elect_leaders.py` says.
- A controller that does not answer within the timeout (at least a second, at most half a minute) is REQUEST_TIMED_OUT
  for each partition that was named; it may have elected leaders all the same.
"""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tailrace.server.request_context import EncodedBody, RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(
    spu: "Spu", context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | EncodedBody:
    try:
        return await spu.forwarding.forward(context, request, request.timeout_ms)
    except KafkaError as error:
        return ElectLeadersResponse(
            error_code=error.code,
            replica_election_results=[
                ReplicaElectionResult(
                    topic.topic, [PartitionResult(number, error.code, error.message) for number in topic.partitions]
                )
                for topic in request.topic_partitions or ()
            ],
        )
