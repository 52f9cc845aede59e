"""Runs handlers of group APIs with a coordinator without an SPU. Responses are encoded in the requested version."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from grouping import GroupWorld

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.protocol.codec.compile import decode, encode_whole
from tailrace.protocol.error_codes import KafkaError
from tailrace.server.request_context import ClientIdentity, RequestContext

Call = Callable[[Coordinator, Moment], None]


class GroupHost:
    """The part of an SPU that handlers of groups use."""

    def __init__(self) -> None:
        self.world = GroupWorld()
        self.world.use(initial_rebalance_delay_ms=0)
        self.refusal: KafkaError | None = None
        """Refuses, as if another SPU coordinated the group."""
        self.turns_ended = 0
        self.groups = self
        self.broker_configs = BrokerConfigs({})

    def ask(self, group_id: str, waiter: Waiter, call: Call, held_bytes: int | None = None) -> None:
        if self.refusal is not None:
            waiter.refuse(self.refusal)
            return
        asked = self.world.ask(lambda coordinator, moment, _: call(coordinator, moment))
        if asked.error is not None:
            waiter.refuse(asked.error)

    def end_turn(self) -> None:
        self.turns_ended += 1


def responses_of(host: GroupHost, handle: Callable[..., None], request: Any, version: int) -> list[Any]:
    """Handles the request in this version. Returns a list that gets the response as the client decodes it."""
    context, answered = _asked(request, version)
    handle(host, context, decode(type(request), version, encode_whole(request, version)))
    return answered


async def response_in_turns_of(
    host: GroupHost, handle: Callable[..., Awaitable[None] | None], request: Any, version: int
) -> Any:
    """Runs a handler that may let other tasks run before it is done."""
    context, answered = _asked(request, version)
    rest = handle(host, context, decode(type(request), version, encode_whole(request, version)))
    if rest is not None:
        await rest
    (response,) = answered
    return response


@asynccontextmanager
async def looking(look: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `look` whenever other tasks run."""

    async def look_again_and_again() -> None:
        while True:
            look()
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_again_and_again)
        yield
        nursery.cancel_scope.cancel()


def _asked(request: Any, version: int) -> tuple[RequestContext, list[Any]]:
    """Returns the request context, and a list that gets the response as the client decodes it."""
    answered: list[Any] = []

    def encode(correlation_id: int, response: Any) -> tuple[bytes]:
        answered.append(decode(type(response), version, encode_whole(response, version)))
        return (b"",)

    context = RequestContext(
        type(request).API_KEY,
        version,
        7,
        "me",
        ConnectedListener("PUBLIC", ("controller", 9003)),
        ClientIdentity("192.0.2.1:5"),
        0.0,
        lambda context: None,
        encode,
    )
    return context, answered


def response_of(host: GroupHost, handle: Callable[..., None], request: Any, version: int) -> Any:
    (response,) = responses_of(host, handle, request, version)
    return response
