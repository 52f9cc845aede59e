"""AlterPartitionReassignments, versions 0–1: handed to the Streaming Controller.

- What the controller makes of each partition, `server/handlers/alter_partition_reassignments.py` says.
- A controller that does not answer within the timeout (at least a second, at most half a minute) is REQUEST_TIMED_OUT
  for all; it may have accepted them all the same.
"""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tailrace.server.request_context import EncodedBody, RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(
    spu: "Spu", context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse | EncodedBody:
    try:
        return await spu.forwarding.forward(context, request, request.timeout_ms)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
