"""ListPartitionReassignments, version 0: the Streaming Controller is asked.

- What the controller says, `server/handlers/list_partition_reassignments.py` tells.
- A controller that does not answer within the timeout (at least a second, at most half a minute) is REQUEST_TIMED_OUT.
"""

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tailrace.server.request_context import EncodedBody, RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(
    spu: "Spu", context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse | EncodedBody:
    try:
        return await spu.forwarding.forward(context, request, request.timeout_ms)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
