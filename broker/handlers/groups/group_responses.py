"""What the handlers of groups have in common: the client that asked, and checks of what it may ask."""

from collections.abc import Callable, Iterable
from typing import Any

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.cluster.client_view import GROUP_OPERATIONS
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.server.request_context import RequestContext

from .group_host import ConsumerGroupHost


def caller_of(context: RequestContext) -> Caller:
    """Returns how Kafka describes the client of a request: its client id, and its host behind a slash."""
    host = context.client.address.rpartition(":")[0].strip("[]")
    return Caller(context.client_id or "", f"/{host}", context.viewer)


def ask_consumer_group(
    host: ConsumerGroupHost, group_id: str, waiter: Waiter, call: Callable[[Coordinator, Moment], None]
) -> None:
    """Asks the coordinator of the group, or refuses if KIP-848 groups are not enabled."""
    if host.broker_configs.settings.allows_consumer_groups:
        host.groups.ask(group_id, waiter, call)
        return
    reason = "groups of the consumer protocol are not enabled: see group.coordinator.rebalance.protocols"
    waiter.refuse(KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason))


def authorize(described: Iterable[Any]) -> None:
    """Adds what the client may do with each described group: everything. With an authorizer, guards correct it."""
    for group in described:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
