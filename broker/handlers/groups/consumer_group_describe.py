"""ConsumerGroupDescribe, versions 0–1: KIP-848 groups with their members, current assignments and target assignments.

v1 tells which members speak the classic protocol. Without an authorizer, every client may do everything with a group. A
group that is named twice is described once.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Gathering
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tailrace.server.request_context import RequestContext

from .group_host import ConsumerGroupHost
from .group_responses import ask_consumer_group, authorize


def handle(host: ConsumerGroupHost, context: RequestContext, request: ConsumerGroupDescribeRequest) -> None:
    def response(described: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            authorize(described)
        return ConsumerGroupDescribeResponse(groups=described)

    gathering = Gathering(context, response)
    for group_id in dict.fromkeys(request.group_ids):
        _describe(host, group_id, gathering)
    gathering.start()


def _describe(host: ConsumerGroupHost, group_id: str, gathering: Gathering) -> None:
    def refused(error: KafkaError) -> DescribedGroup:
        return DescribedGroup(error_code=error.code, error_message=error.message or None, group_id=group_id)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.output.respond(waiter, coordinator.consumer.describe(group_id))

    waiter: Waiter = gathering.part(refused)
    ask_consumer_group(host, group_id, waiter, call)
