"""IncrementalAlterConfigs, versions 0–1: handed to the Streaming Controller; the configs apply when the answer leaves.

- What the controller makes of each resource, `server/handlers/incremental_alter_configs.py` says.
- The request has no timeout: a controller that does not answer for half a minute is REQUEST_TIMED_OUT for each
  resource; it may have altered them all the same.
"""

from typing import TYPE_CHECKING

from tailrace.broker.controller_link.forwarding import FORWARD_MS_MAX
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace.server.config_responses import rows
from tailrace.server.request_context import EncodedBody, RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


async def handle(
    spu: "Spu", context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | EncodedBody:
    try:
        return await spu.forwarding.forward(context, request, FORWARD_MS_MAX)
    except KafkaError as error:
        resources = [(each.resource_type, each.resource_name) for each in request.resources]
        return IncrementalAlterConfigsResponse(
            responses=rows(AlterConfigsResourceResponse, resources, [error] * len(resources))
        )
