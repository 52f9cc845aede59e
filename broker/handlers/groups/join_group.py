"""JoinGroup, versions 0–9: a member joins, or joins again; answered when all members have come.

- v4 and later give a new member an id first (MEMBER_ID_REQUIRED), v5 and later know static members, v8 the client's
  reason, v9 lets a static leader that came back know that there is nothing to assign.
- A group whose members hold more than 64 MiB of metadata, and one with 10 000 ids given to clients that have not joined
  yet, takes no more: GROUP_MAX_SIZE_REACHED. Names of more than 32 000 bytes are an INVALID_REQUEST. Kafka bounds the
  size of a record alone.
- A JoinGroup of a member that waits with an earlier one takes its place; Kafka never answers the earlier one, we do:
  REBALANCE_IN_PROGRESS.
- A refused join leaves no group behind; with Kafka it makes an empty one.
"""

from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import Responding, caller_of

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
    host.groups.ask(request.group_id, waiter, call)
