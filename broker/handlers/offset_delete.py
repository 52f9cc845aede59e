"""OffsetDelete, version 0: a group forgets offsets of topics that none of its members reads.

- Offsets of a topic that is not there any more cannot be named: they go with the topic.
"""

from typing import TYPE_CHECKING

from tailrace.broker.groups.coordinator import Coordinator
from tailrace.broker.groups.moment import Moment
from tailrace.broker.groups.ready import Waiter
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace.server.request_context import RequestContext

from .group_answers import Responding

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: OffsetDeleteRequest) -> None:
    def refused(error: KafkaError) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=error.code)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.offsets.delete(request, waiter)

    waiter: Waiter = Responding(context, refused)
    spu.groups.ask(request.group_id, waiter, call)
