"""LeaveGroup, versions 0–5: members leave, so that the others need not wait until their sessions time out.

v3 and later name several members. An administrator names static members by their instance id only. Each member has its
own error. v5 has the client's reason. A client that got an id, and leaves before it joined with the id, starts no
rebalance; in Kafka it does.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.classic_requests import LEAVE_MEMBERS_FROM
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import caller_of


def handle(host: GroupHost, context: RequestContext, request: LeaveGroupRequest) -> None:
    def refused(error: KafkaError) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=error.code)

    def response(reply: LeaveGroupResponse) -> LeaveGroupResponse:
        if context.api_version < LEAVE_MEMBERS_FROM and reply.members:
            return LeaveGroupResponse(error_code=reply.members[0].error_code)
        return reply

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.classic.leave(request, context.api_version, caller_of(context), waiter, moment)

    waiter: Waiter = Responding(context, refused, response)
    host.groups.ask(request.group_id, waiter, call)
