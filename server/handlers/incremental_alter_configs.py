"""IncrementalAlterConfigs, versions 0–1: sets, deletes, appends to and subtracts from configs, without a restart.

- The resources are topics (2), SPUs by id (4), all SPUs under an empty name, and groups (32), whether the group exists
  or not. For each resource either all changes are made or none. They have effect before the response leaves, in running
  replicas too.
- As in Kafka, append and subtract change the list that applies now, even if the resource does not set it itself.
- As in Kafka, a broker config that does not exist can be set and deleted, and has no effect. It cannot be appended to.
- More broker configs can be altered than in Kafka, for example `num.partitions`. DescribeConfigs shows which ones by
  `read_only`.
- The log level is set when the SPU starts. A change of loggers (8) is refused.
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
