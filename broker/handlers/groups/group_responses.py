"""How the answers of coordinators become responses: of one group, or of several that answer in any order."""

from collections.abc import Callable, Iterable
from typing import Any

from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.group import Caller
from tailrace.broker.groups.hosting.group_partition import Call
from tailrace.cluster.client_view import GROUP_OPERATIONS
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.server.request_context import RequestContext

from .group_host import ConsumerGroupHost


class Responding:
    """Waits for one answer: the response itself, or what `response` makes of it."""

    __slots__ = ("_context", "_is_abandoned", "_refused", "_response")

    def __init__(
        self,
        context: RequestContext,
        refused: Callable[[KafkaError], object],
        response: Callable[[Any], object] | None = None,
    ) -> None:
        self._context = context
        self._refused = refused
        self._response = response
        self._is_abandoned = False
        context.abandon = self._abandon

    def respond(self, response: Any) -> None:
        self._respond(response if self._response is None else self._response(response))

    def refuse(self, error: KafkaError) -> None:
        self._respond(self._refused(error))

    def _respond(self, response: object) -> None:
        if not self._is_abandoned:
            self._context.respond(response)

    def _abandon(self) -> None:
        # The group is not told: a member whose connection broke is one until its session ends.
        self._is_abandoned = True


class Gathering:
    """Waits for several answers, and responds when all are there: one response from the parts, in the order asked."""

    __slots__ = ("_context", "_is_abandoned", "_missing", "_parts", "_response")

    def __init__(self, context: RequestContext, response: Callable[[list[Any]], object]) -> None:
        self._context = context
        self._response = response
        self._parts: list[Any] = []
        self._missing = 1  # this one is there when all parts have been asked for
        self._is_abandoned = False

    def part(self, refused: Callable[[KafkaError], object]) -> "GatheredPart":
        """The next part of the response; `refused` makes it when there is no answer. All are added before `start`."""
        self._parts.append(None)
        self._missing += 1
        return GatheredPart(self, len(self._parts) - 1, refused)

    def start(self) -> None:
        """All parts have been asked for, and some may be there already."""
        self._context.abandon = self._abandon
        self._on_part()

    def on_part(self, place: int, part: object) -> None:
        self._parts[place] = part
        self._on_part()

    def _on_part(self) -> None:
        self._missing -= 1
        if self._missing == 0 and not self._is_abandoned:
            self._context.respond(self._response(self._parts))

    def _abandon(self) -> None:
        self._is_abandoned = True


class GatheredPart:
    __slots__ = ("_gathering", "_place", "_refused")

    def __init__(self, gathering: Gathering, place: int, refused: Callable[[KafkaError], object]) -> None:
        self._gathering = gathering
        self._place = place
        self._refused = refused

    def respond(self, response: Any) -> None:
        self._gathering.on_part(self._place, response)

    def refuse(self, error: KafkaError) -> None:
        self._gathering.on_part(self._place, self._refused(error))


def caller_of(context: RequestContext) -> Caller:
    host = context.client.address.rpartition(":")[0].strip("[]")
    return Caller(context.client_id or "", f"/{host}")


def ask_consumer_group(host: ConsumerGroupHost, group_id: str, waiter: Waiter, call: Call) -> None:
    """Has the coordinator called, where groups of KIP-848 may be."""
    if host.broker_configs.settings.allows_consumer_groups:
        host.groups.ask(group_id, waiter, call)
        return
    reason = "groups of the consumer protocol are not enabled here: see group.coordinator.rebalance.protocols"
    waiter.refuse(KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason))


def authorize(described: Iterable[Any]) -> None:
    """Says of groups of either kind what their client may do with them: without access control all that there is."""
    for group in described:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
