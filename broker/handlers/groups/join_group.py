"""JoinGroup, versions 0–9: a member joins, or joins again; the response waits until all members have joined.

- v4 and later first give a new member an id (MEMBER_ID_REQUIRED). v5 has static members, and v8 the client's reason. v9
  tells a static leader that came back that it need not compute an assignment.
- A group takes no more members if they hold more than 64 MiB of metadata, or if it has given 10 000 ids to clients that
  have not joined yet: GROUP_MAX_SIZE_REACHED. Names of more than 32 000 bytes are an INVALID_REQUEST. Kafka limits only
  the size of a record.
- If a member waits with a JoinGroup and sends another one, the second one takes its place. The first one gets
  REBALANCE_IN_PROGRESS; in Kafka it never gets a response.
- While the groups of a coordinator are loaded, a join waits for up to five seconds before it is refused with
  COORDINATOR_LOAD_IN_PROGRESS; Kafka refuses it at once. Some clients fail on that.
- A refused join leaves no group behind; in Kafka it leaves an empty one.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import caller_of

PROTOCOL_CAN_BE_NULL_FROM = 7


def handle(host: GroupHost, context: RequestContext, request: JoinGroupRequest) -> None:
    def refused(error: KafkaError) -> JoinGroupResponse:
        return response(JoinGroupResponse(error_code=error.code, member_id=request.member_id))

    def response(reply: JoinGroupResponse) -> JoinGroupResponse:
        if reply.error_code != ErrorCode.NONE:
            reply.protocol_name = None if context.api_version >= PROTOCOL_CAN_BE_NULL_FROM else ""
        return reply

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.classic.join(request, context.api_version, caller_of(context), waiter, moment)

    waiter: Waiter = Responding(context, refused, response)
    held_bytes = sum(len(protocol.metadata) for protocol in request.protocols)
    host.groups.ask(request.group_id, waiter, call, held_bytes)
