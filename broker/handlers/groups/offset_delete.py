"""OffsetDelete, version 0: deletes a group's committed offsets of topics that none of its members reads.

The offsets of a deleted topic cannot be named. They are deleted with the topic.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost


def handle(host: GroupHost, context: RequestContext, request: OffsetDeleteRequest) -> None:
    def refused(error: KafkaError) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=error.code)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.offsets.delete(request, waiter)

    waiter: Waiter = Responding(context, refused)
    host.groups.ask(request.group_id, waiter, call)
