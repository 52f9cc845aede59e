"""What Nuclio's handlers expect of `context.platform` and of responses: acknowledging events later, and callbacks.

An event stays open after its handler has returned if the response says so. The function acknowledges it later by its
offset. As in Nuclio, that acknowledges the earlier events of the shard as well, if this worker has them.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from tailrace.trigger.work import Shard

KEEPS_OPEN = "x-nuclio-stream-no-ack"
"""The header of a response that keeps the event open."""
Callback = Callable[[], Any]
"""A function without arguments, perhaps an `async def`."""


class QualifiedOffset(Protocol):
    """The place of an event, as Nuclio's SDK makes it of an event."""

    topic: str
    partition: int
    offset: int


class Platform:
    """What surrounds a function, with Nuclio's names."""

    kind = "local"

    def __init__(self, acknowledge_up_to: Callable[[Shard, int], None]) -> None:
        self._acknowledge_up_to = acknowledge_up_to
        self._callbacks: dict[str, Callback] = {}

    async def explicit_ack(self, qualified_offset: QualifiedOffset) -> None:
        """Acknowledges the event at this place, and earlier open events of its shard."""
        shard = Shard(qualified_offset.topic, int(qualified_offset.partition))
        self._acknowledge_up_to(shard, int(qualified_offset.offset))

    def set_drain_callback(self, callback: Callback) -> None:
        """Sets what is called when the worker is told to stop, first."""
        self._callbacks["drain"] = callback

    def set_termination_callback(self, callback: Callback) -> None:
        """Sets what is called when the worker is told to stop, last."""
        self._callbacks["termination"] = callback

    def pending_callbacks(self) -> list[Callback]:
        """Returns the callbacks in the order in which they are called, each only once."""
        found = [self._callbacks[name] for name in ("drain", "termination") if name in self._callbacks]
        self._callbacks.clear()
        return found


def keeps_open(result: object) -> bool:
    """Whether what a handler returned is a response that keeps the event open."""
    headers = getattr(result, "headers", None)
    if not isinstance(headers, dict):
        return False
    return any(
        str(name).lower() == KEEPS_OPEN and value not in (False, None, "false", "False")
        for name, value in headers.items()
    )


async def call_back(callback: Callback) -> None:
    """Calls a callback, and waits for it if it is a coroutine."""
    result: Awaitable[Any] | None = callback()
    if inspect.isawaitable(result):
        await result
