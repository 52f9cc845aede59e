"""AlterConfigs, versions 0–2: replaces all configs that a topic or an SPU sets; a config that is not named loses its
value.

A topic keeps its `replication.policy`, which cannot be altered, whether the request names it or not.

Kafka keeps this API for old tools. Its successor is IncrementalAlterConfigs, whose rules apply here as well.
"""

from tailrace.cluster.configs.config_changes import Alteration, ConfigChange, Operation
from tailrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from tailrace.server.config_responses import alter
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    wanted = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigChange(config.name, Operation.SET, config.value) for config in resource.configs),
            replaces_all=True,
        )
        for resource in request.resources
    ]
    responses = await alter(host, AlterConfigsResourceResponse, wanted, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=responses)
