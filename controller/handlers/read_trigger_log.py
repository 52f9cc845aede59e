"""ReadTriggerLog, version 0: reads what a replica of a deployed trigger has printed, if this SC has started it."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.read_trigger_log import ReadTriggerLogRequest, ReadTriggerLogResponse
from tailrace.server.request_context import RequestContext


def handle(host: ObjectHost, context: RequestContext, request: ReadTriggerLogRequest) -> ReadTriggerLogResponse:
    try:
        part = host.trigger_requests().read_log(request.name, request.replica, request.after, request.bytes_max)
    except KafkaError as error:
        return ReadTriggerLogResponse(error_code=error.code, error_message=error.message)
    return ReadTriggerLogResponse(text=part.text, next=part.next)
