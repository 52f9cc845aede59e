"""IncrementalAlterConfigs, versions 0–1: sets, unsets, appends to and subtracts from configs while everything runs.

- Resources: topics (2), SPUs by id (4), all SPUs under an empty name, and groups (32), be there such a group or not. Of
  each resource either all changes are made or none. They take effect before the answer leaves, in running replicas too.
- Append and subtract work on the list that applies now, also where the resource does not set it itself, as in Kafka.
- A broker config that does not exist is refused, where Kafka keeps it for plug-ins. More of them can be altered than in
  Kafka (`num.partitions`, say): which, DescribeConfigs tells by `read_only`.
- The level of the log is set when the SPU starts: altering loggers (8) is refused.
"""

from tailrace.cluster.configs.config_changes import Alteration, ConfigChange
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace.server.config_responses import alter
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext


async def handle(
    host: AdministeringHost, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    wanted = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs),
        )
        for resource in request.resources
    ]
    responses = await alter(host, AlterConfigsResourceResponse, wanted, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=responses)
