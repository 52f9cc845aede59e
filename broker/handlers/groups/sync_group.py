"""SyncGroup, versions 0–5: a member asks for its assignment, and the leader brings those of all.

Answered when the leader's assignment is stored and committed, so that no coordinator that follows can give another one
for the same generation. v3 and later know static members, v5 names the protocol that the group agreed on.

- A SyncGroup of a member that waits with an earlier one takes its place; the earlier one is answered with
  REBALANCE_IN_PROGRESS, with Kafka never.
- Assignments are bound to 64 MiB together with the subscriptions: UNKNOWN_SERVER_ERROR, as Kafka has it for a record
  that is too large, which is 1 MiB there.
"""

from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import Responding, caller_of


def handle(host: GroupHost, context: RequestContext, request: SyncGroupRequest) -> None:
    def refused(error: KafkaError) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=error.code)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.classic.sync(request, context.api_version, caller_of(context), waiter, moment)

    waiter: Waiter = Responding(context, refused)
    host.groups.ask(request.group_id, waiter, call)
