"""ReportTrigger, version 0: takes the report of one replica of a trigger."""

from tailrace.controller.handlers import ObjectHost
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.report_trigger import ReportTriggerRequest, ReportTriggerResponse
from tailrace.server.request_context import RequestContext


async def handle(host: ObjectHost, context: RequestContext, request: ReportTriggerRequest) -> ReportTriggerResponse:
    try:
        await host.trigger_requests().report(request.name, request.replica, request.document)
    except KafkaError as error:
        return ReportTriggerResponse(error_code=error.code, error_message=error.message)
    return ReportTriggerResponse()
