from hosts import request_of
from running_workflow import running_workflow

from tailrace.controller.handlers.report_trigger import handle
from tailrace.controller.triggers.trigger_reports import REPORT_CHARACTERS_MAX
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.report_trigger import ReportTriggerRequest

CONTEXT = request_of(ApiKey.METADATA)


async def test_a_report_is_kept_or_refused_if_it_is_too_large() -> None:
    async with running_workflow() as running:
        assert handle(running.host, CONTEXT, ReportTriggerRequest("bill", "replica1", "{}")).error_code == 0
        large = ReportTriggerRequest("bill", "replica1", "x" * (REPORT_CHARACTERS_MAX + 1))
        assert handle(running.host, CONTEXT, large).error_code == ErrorCode.INVALID_REQUEST
        assert running.workflow.trigger_reports.reports_of("bill")["replica1"].document == "{}"
