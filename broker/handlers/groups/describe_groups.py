"""DescribeGroups, versions 0–6: classic groups with their members; ConsumerGroupDescribe is for KIP-848 groups.

A group that does not exist is in the state Dead; v6 says GROUP_ID_NOT_FOUND. v3 and later can ask what the client may
do with the group: everything, unless an authorizer says otherwise. A group that is named twice is described once. Kafka
describes it twice, but then a short request could make a response of any size.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Gathering
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost
from .group_responses import authorize


def handle(host: GroupHost, context: RequestContext, request: DescribeGroupsRequest) -> None:
    def response(described: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            authorize(described)
        return DescribeGroupsResponse(groups=described)

    gathering = Gathering(context, response)
    for group_id in dict.fromkeys(request.groups):
        _describe(host, context, group_id, gathering)
    gathering.start()


def _describe(host: GroupHost, context: RequestContext, group_id: str, gathering: Gathering) -> None:
    def refused(error: KafkaError) -> DescribedGroup:
        return DescribedGroup(error_code=error.code, group_id=group_id)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.output.respond(waiter, coordinator.classic.describe(group_id, context.api_version))

    waiter: Waiter = gathering.part(refused)
    host.groups.ask(group_id, waiter, call)
