"""DeleteGroups, versions 0–2: deletes groups without members, and their offsets.

A short request can name thousands of groups with hundreds of offsets each. It is handled in several turns, so that
other tasks run in between.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Gathering
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.runtime.turns import Turns
from tailrace.server.request_context import RequestContext

from .group_host import ManyGroupsHost

RECORDS_PER_TURN = 1000


async def handle(host: ManyGroupsHost, context: RequestContext, request: DeleteGroupsRequest) -> None:
    gathering = Gathering(context, lambda results: DeleteGroupsResponse(results=results))
    turns = Turns(RECORDS_PER_TURN)
    for group_id in dict.fromkeys(request.groups_names):
        _delete(host, group_id, gathering, turns)
        await turns.take(host.end_turn)
    host.end_turn()
    gathering.start()


def _delete(host: ManyGroupsHost, group_id: str, gathering: Gathering, turns: Turns) -> None:
    def refused(error: KafkaError) -> DeletableGroupResult:
        return DeletableGroupResult(group_id, error.code)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.delete(group_id)
        coordinator.output.respond(waiter, DeletableGroupResult(group_id))
        turns.count += len(coordinator.output.records)

    waiter: Waiter = gathering.part(refused)
    turns.count += 1
    host.groups.ask(group_id, waiter, call)
