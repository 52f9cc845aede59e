"""AlterConfigs, versions 0–2: replaces all that a topic or an SPU sets itself; what is not named loses its value.

Kafka keeps this API for old tools; its successor is IncrementalAlterConfigs, whose rules hold here too.
"""

from tailrace.cluster.config_changes import Alteration, ConfigChange, Operation
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
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
    try:
        outcomes = await host.administration.alter_configs(wanted, validate_only=request.validate_only)
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=alteration.kind,
                resource_name=alteration.name,
            )
            for alteration, error in zip(wanted, outcomes, strict=True)
        ]
    )
