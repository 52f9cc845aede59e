"""ReadStreamState, version 0: reads the state object of a stream, with the age of each member's heartbeat."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.read_stream_state import (
    HeartbeatAge,
    ReadStreamStateRequest,
    ReadStreamStateResponse,
    StreamGroup,
)
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ReadStreamStateRequest) -> ReadStreamStateResponse:
    try:
        found = host.trigger_requests().read_stream(request.topic, request.group)
    except KafkaError as error:
        return ReadStreamStateResponse(error_code=error.code, error_message=error.message)
    groups = [
        StreamGroup(
            each.attribute.group,
            each.attribute.version,
            each.attribute.text,
            [HeartbeatAge(member, int(age * 1000)) for member, age in each.ages.items()],
        )
        for each in found.attributes
    ]
    return ReadStreamStateResponse(shards=found.shards, replicas=found.replicas, groups=groups)
