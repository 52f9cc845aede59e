"""Heartbeat, versions 0–4: a member stays in its group, and learns whether it has to join again. v3 has static members.

While the groups are being loaded, the response has no error, as in Kafka. The sessions of all members start anew when
the groups are loaded.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import caller_of


def handle(host: GroupHost, context: RequestContext, request: HeartbeatRequest) -> None:
    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.classic.heartbeat(request, context.api_version, caller_of(context), waiter, moment)

    waiter: Waiter = Responding(context, _refused)
    host.groups.ask(request.group_id, waiter, call)


def _refused(error: KafkaError) -> HeartbeatResponse:
    is_loading = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
