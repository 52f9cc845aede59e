from hosts import request_of
from running_workflow import running_workflow

from tailrace.cluster.stream_state.replica_report import ReplicaReport, encode_report
from tailrace.controller.handlers.report_trigger import handle
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal.report_trigger import ReportTriggerRequest

CONTEXT = request_of(ApiKey.METADATA)


REPORT = ReplicaReport(topic="orders", group="billing", replica="replica1")


async def test_a_report_is_taken_or_refused() -> None:
    async with running_workflow() as running:
        taken = await handle(running.host, CONTEXT, ReportTriggerRequest("bill", "replica1", encode_report(REPORT)))
        assert taken.error_code == ErrorCode.NONE
        refused = await handle(running.host, CONTEXT, ReportTriggerRequest("bill", "replica1", "{}"))
        assert refused.error_code == ErrorCode.INVALID_REQUEST
