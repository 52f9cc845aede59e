"""ConsumerGroupHeartbeat, versions 0–1: members of KIP-848 groups join, learn their assignments, and leave.

v1 has patterns of topics, and member ids that clients choose. While a group is not stable, its members are told to send
the next heartbeat earlier than `group.consumer.heartbeat.interval.ms` says, so that a partition which one member gives
up goes to the next member at once. A pattern has effect from the first heartbeat on; Apache Kafka needs a second one.
"""

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.handlers.coordinator_answers import Responding
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.server.request_context import RequestContext

from .group_host import ConsumerGroupHost
from .group_responses import ask_consumer_group, caller_of


def handle(host: ConsumerGroupHost, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    def call(coordinator: Coordinator, moment: Moment) -> None:
        coordinator.consumer.heartbeat(request, context.api_version, caller_of(context), waiter, moment)

    waiter: Waiter = Responding(context, _refused)
    ask_consumer_group(host, request.group_id, waiter, call)


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)
