"""Makes responses of coordinators' answers: of one answer, or of several answers that come in any order."""

from collections.abc import Callable
from typing import Any

from tailrace.protocol.error_codes import KafkaError
from tailrace.server.request_context import RequestContext


class Responding:
    """Waits for one answer, which is the response itself or goes through `response`."""

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
        # The coordinator does not learn it: a member stays a member until its session times out.
        self._is_abandoned = True


class Gathering:
    """Waits for several answers. When it has all, it makes one response of the parts, in the order of the request."""

    __slots__ = ("_context", "_is_abandoned", "_missing", "_parts", "_response")

    def __init__(self, context: RequestContext, response: Callable[[list[Any]], object]) -> None:
        self._context = context
        self._response = response
        self._parts: list[Any] = []
        self._missing = 1  # stands for `start`
        self._is_abandoned = False

    def part(self, refused: Callable[[KafkaError], object]) -> "GatheredPart":
        """Adds the next part of the response; all parts are added before `start`. `refused` makes the part from an
        error."""
        self._parts.append(None)
        self._missing += 1
        return GatheredPart(self, len(self._parts) - 1, refused)

    def start(self) -> None:
        """Lets the response leave when all parts are there. No part is added afterwards."""
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
    """Waits for the answer that is one part of a response."""

    __slots__ = ("_gathering", "_place", "_refused")

    def __init__(self, gathering: Gathering, place: int, refused: Callable[[KafkaError], object]) -> None:
        self._gathering = gathering
        self._place = place
        self._refused = refused

    def respond(self, response: Any) -> None:
        self._gathering.on_part(self._place, response)

    def refuse(self, error: KafkaError) -> None:
        self._gathering.on_part(self._place, self._refused(error))
