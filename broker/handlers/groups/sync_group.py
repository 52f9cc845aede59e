"""SyncGroup, versions 0–5: a member asks for its assignment, and the leader of the group brings everyone's.

The response waits until the leader's assignment is committed, so that no later coordinator can give another one for the
same generation. v3 and later have static members. v5 names the protocol that the group agreed on.

- If a member waits with a SyncGroup and sends another one, the second one takes its place. The first one gets
  REBALANCE_IN_PROGRESS; in Kafka it never gets a response.
- Assignments and subscriptions together are limited to 64 MiB: UNKNOWN_SERVER_ERROR, which in Kafka means a record of
  more than 1 MiB.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import caller_of


def handle(host: GroupHost, context: RequestContext, request: SyncGroupRequest) -> None:
    def refused(error: KafkaError) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=error.code)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.classic.sync(request, context.api_version, caller_of(context), waiter, moment)

    waiter: Waiter = Responding(context, refused)
    host.groups.ask(request.group_id, waiter, call)
