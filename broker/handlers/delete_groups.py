"""DeleteGroups, versions 0–2: groups that nobody is a member of, with their offsets."""

from typing import TYPE_CHECKING

from tailrace.broker.groups.coordinator import Coordinator
from tailrace.broker.groups.moment import Moment
from tailrace.broker.groups.ready import Waiter
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.server.request_context import RequestContext

from .group_answers import Gathering

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu


def handle(spu: "Spu", context: RequestContext, request: DeleteGroupsRequest) -> None:
    gathering = Gathering(context, lambda results: DeleteGroupsResponse(results=results))
    for group_id in dict.fromkeys(request.groups_names):
        _delete(spu, group_id, gathering)
    gathering.start()


def _delete(spu: "Spu", group_id: str, gathering: Gathering) -> None:
    def refused(error: KafkaError) -> DeletableGroupResult:
        return DeletableGroupResult(group_id, error.code)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.delete(group_id)
        coordinator.ready.answer(waiter, DeletableGroupResult(group_id))

    waiter: Waiter = gathering.part(refused)
    spu.groups.ask(group_id, waiter, call)
