"""WriteStreamState, version 0: writes the attribute of a group if it has not changed since the caller read it."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.write_stream_state import WriteStreamStateRequest, WriteStreamStateResponse
from tailrace.server.request_context import RequestContext


async def handle(
    host: ObjectHost, context: RequestContext, request: WriteStreamStateRequest
) -> WriteStreamStateResponse:
    try:
        version = await host.trigger_requests().write_stream(
            request.topic, request.group, request.expected_version, request.state
        )
    except KafkaError as error:
        return WriteStreamStateResponse(error_code=error.code, error_message=error.message)
    return WriteStreamStateResponse(version=version)
