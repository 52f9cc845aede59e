"""ExplainGroup, version 0, not in Kafka: the last rebalances of a group, and its open transactions.

The response does not wait for the group's records to be committed, because that may be what the group waits for.
"""

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator, no_such_group
from tailrace.broker.groups.coordinator.group_report import explain_group
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.internal.explain_group import ExplainGroupRequest, ExplainGroupResponse
from tailrace.server.request_context import RequestContext

from .group_host import GroupHost


def handle(host: GroupHost, context: RequestContext, request: ExplainGroupRequest) -> None:
    def refused(error: KafkaError) -> ExplainGroupResponse:
        return ExplainGroupResponse(error.code, error.message)

    def call(coordinator: Coordinator, moment: Moment) -> None:
        group = coordinator.groups.get(request.group_id)
        if group is None:
            raise no_such_group(request.group_id)
        settings = coordinator.table.settings(group.group_id)
        response = explain_group(group, settings, coordinator.offsets.pending, moment.now_ms)
        partition = next(each for each in host.groups.loaded() if each.coordinator is coordinator)
        response.partition = partition.replica.partition
        response.epoch = partition.epoch
        response.loaded_ms = partition.loaded_ms
        coordinator.output.respond_at_once(waiter, response)

    waiter = Responding(context, refused)
    host.groups.ask(request.group_id, waiter, call)
