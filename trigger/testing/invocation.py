"""Calls a function with events that the caller makes up, and collects what it emits, logs and acknowledges.

The function gets the same kinds of events and contexts as in a worker. What it raises reaches the caller.
"""

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec
from msgspec import Struct

from tailrace.trigger.config.trigger_config import Acknowledgement
from tailrace.trigger.config.trigger_settings import Given
from tailrace.trigger.functions.trigger_decorator import declared
from tailrace.trigger.work import Output, Shard
from tailrace.trigger.worker.chunk_runner import HandlerVerdicts, completed
from tailrace.trigger.worker.context import Context
from tailrace.trigger.worker.event import TRIGGER_KIND, Event, TriggerInfo
from tailrace.trigger.worker.event_decoder import make_event
from tailrace.trigger.worker.event_logger import EventLogger, text_of
from tailrace.trigger.worker.failed_calls import refuse_awaitable

Body = bytes | str | dict[str, Any] | list[Any] | None
"""Text stands for its UTF-8, and dicts and lists for their JSON."""
TOPIC = "events"
"""The topic of events of a function without `@trigger`."""
DEFAULT_MS = 1_767_225_600_000
"""The time of a record that gets none: a fixed one, so that tests have the same result each day."""

Function = Callable[..., Any]


class LogLine(Struct, frozen=True):
    """A line that the function has logged."""

    level: str
    message: str
    fields: Mapping[str, object]


class Invocation(Struct, frozen=True):
    """What became of a call."""

    returned: Any
    """What the function returned."""
    events: Sequence[Event]
    """The events that it got."""
    emitted: Sequence[Output]
    """The records that it emitted, in order: topic, key, value, headers, partition."""
    logs: Sequence[LogLine]
    acknowledged: frozenset[int]
    """The offsets of the events that it acknowledged explicitly."""
    failed: Mapping[int, str]
    """The offsets of the events that it reported as failed, each with its reason."""


class _Verdicts:
    """Collects what the function says about events. It refuses what a worker refuses."""

    def __init__(self, *, may_acknowledge: bool) -> None:
        self.acknowledged: set[int] = set()
        self.of_worker = HandlerVerdicts(None, lambda: None)
        self._may_acknowledge = may_acknowledge

    def acknowledge(self, event: Event) -> None:
        self.acknowledge_up_to(event.shard, event.offset)

    def acknowledge_up_to(self, shard: Shard, offset: int) -> None:
        if not self._may_acknowledge:
            self.of_worker.acknowledge_up_to(shard, offset)  # raises
        self.acknowledged.add(offset)

    def fail(self, event: Event, reason: str) -> None:
        self.of_worker.fail(event, reason)

    def begin(self, events: Sequence[Event]) -> None:
        self.acknowledged.clear()
        self.of_worker.failed.clear()
        self.of_worker.running = events


class _CollectingLogger(EventLogger):
    """Keeps lines instead of writing them."""

    def __init__(self, current: Callable[[], Event | None], show: Callable[[LogLine], None] | None) -> None:
        super().__init__(current)
        self.lines: list[LogLine] = []
        self._show = show

    def write(self, level: str, message: object, args: tuple[object, ...], fields: dict[str, object]) -> None:
        line = LogLine(level, text_of(message, args), self.bound | fields)
        self.lines.append(line)
        if self._show is not None:
            self._show(line)


class EventParts(Struct, frozen=True):
    """An event that a test makes up. The call gives it an offset if it has none."""

    body: bytes | None
    key: bytes | None
    headers: Mapping[str, bytes | None]
    topic: str | None
    shard: int
    offset: int | None
    timestamp: datetime | None
    attempt: int


def event(
    body: Body = None,
    *,
    key: bytes | str | None = None,
    headers: Mapping[str, bytes | str | None] | None = None,
    topic: str | None = None,
    shard: int = 0,
    offset: int | None = None,
    timestamp: datetime | None = None,
    attempt: int = 1,
) -> EventParts:
    """Makes up an event. `topic` is that of `@trigger` if it is not given, and offsets count from 0."""
    return EventParts(
        _content(body),
        _content(key),
        {name: _content(value) for name, value in (headers or {}).items()},
        topic,
        shard,
        offset,
        timestamp,
        attempt,
    )


class FunctionUnderTest:
    """A function with one context for all its calls, as in a worker. `init_context` runs before the first call.

    Use it in a `with` statement if the function is an `async def`.
    """

    def __init__(
        self,
        function: Function,
        *,
        init_context: Function | None = None,
        name: str | None = None,
        topic: str | None = None,
        takes_batches: bool | None = None,
        may_acknowledge: bool | None = None,
        on_log: Callable[[LogLine], None] | None = None,
    ) -> None:
        """Prepares the function. `init_context` is that of the function's module unless it is given.

        `name`, `topic`, `takes_batches` and `may_acknowledge` stand for what a file or a flag would say beside
        `@trigger`. `on_log` sees each line at once, also if the call then fails.
        """
        layer = declared(function) or {}
        self._function = function
        self._topic = topic or (str(layer["topic"].value) if "topic" in layer else TOPIC)
        declared_name = layer["name"].value if "name" in layer else getattr(function, "__name__", "function")
        self._name = name or str(declared_name)
        self._takes_batches = "batch_size" in layer if takes_batches is None else takes_batches
        module = sys.modules.get(function.__module__)
        names = getattr(function, "__globals__", {} if module is None else vars(module))
        self._init_context = init_context or names.get("init_context")
        self._is_async = any(map(inspect.iscoroutinefunction, (function, self._init_context)))
        self._is_prepared = False
        self._runner: asyncio.Runner | None = None
        """The event loop of an `async def`, which lives until `close`, because connections belong to their loop."""
        if may_acknowledge is None:
            # Without `@trigger`, a file decides about acknowledgements.
            automatic = Given(Acknowledgement.AUTOMATIC, "")
            may_acknowledge = (
                not layer or layer.get("acknowledgement", automatic).value is not Acknowledgement.AUTOMATIC
            )
        self._verdicts = _Verdicts(may_acknowledge=may_acknowledge)
        self._next_offset = 0
        self._emitted: list[Output] = []
        self.context = Context(
            0,
            self._name,
            TRIGGER_KIND,
            lambda _, output: self._emitted.append(output),
            self._verdicts.acknowledge_up_to,
        )
        """What the function gets as its first argument. A test may set attributes of `context.user_data`."""
        self._logger = _CollectingLogger(self.context.current_event, on_log)
        self.context.logger = self._logger

    def invoke(self, body: Body | EventParts = None, **parts: Any) -> Invocation:
        """Calls the function with one event, and returns what it did. `parts` are the parts that `event` takes."""
        return self._run(self.invoke_async(body, **parts))

    def invoke_batch(self, events: Sequence[Body | EventParts]) -> Invocation:
        """Calls the function with a list of events."""
        return self._run(self.invoke_batch_async(events))

    async def invoke_async(self, body: Body | EventParts = None, **parts: Any) -> Invocation:
        """Does the same as `invoke`, in a test that runs under asyncio itself."""
        one = self._event(_parts(body, parts))
        return await self._call([one] if self._takes_batches else one, [one])

    async def invoke_batch_async(self, events: Sequence[Body | EventParts]) -> Invocation:
        """Does the same as `invoke_batch`, in a test that runs under asyncio itself."""
        made = [self._event(_parts(each, {})) for each in events]
        return await self._call(made, made)

    def close(self) -> None:
        """Closes the event loop of an `async def`."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, call: Coroutine[Any, Any, Invocation]) -> Invocation:
        if not self._is_async:
            return completed(call)  # a plain function may be tested in any surroundings
        if _is_under_asyncio():
            call.close()
            raise RuntimeError("this test runs under asyncio: call the function with `await invoke_async(...)`")
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(call)

    def _event(self, parts: EventParts) -> Event:
        offset = self._next_offset if parts.offset is None else parts.offset
        self._next_offset = offset + 1
        return make_event(
            parts.body,
            key=parts.key,
            headers=parts.headers,
            timestamp_ms=DEFAULT_MS if parts.timestamp is None else round(parts.timestamp.timestamp() * 1000),
            shard=Shard(parts.topic or self._topic, parts.shard),
            offset=offset,
            attempt=parts.attempt,
            trigger=TriggerInfo(TRIGGER_KIND, self._name),
            verdicts=self._verdicts,
        )

    async def _call(self, argument: Event | list[Event], events: Sequence[Event]) -> Invocation:
        if not self._is_prepared:
            self._is_prepared = True
            if self._init_context is not None:
                await _completed(self._init_context(self.context), is_async=self._is_async)
        self._emitted.clear()
        self._logger.lines.clear()
        verdicts = self._verdicts.of_worker
        self._verdicts.begin(events)
        self.context.handled = events[0] if events else None
        token = self.context.handled_in_task.set(self.context.handled)
        try:
            returned = await _completed(
                self._function(self.context, argument), is_async=inspect.iscoroutinefunction(self._function)
            )
            if isinstance(argument, list):
                verdicts.fail_by_ids(returned)
        finally:
            verdicts.running = ()
            self.context.handled = None
            self.context.handled_in_task.reset(token)
        return Invocation(
            returned,
            events,
            list(self._emitted),
            list(self._logger.lines),
            frozenset(self._verdicts.acknowledged),
            dict(verdicts.failed),
        )


def invoke(function: Function, body: Body | EventParts = None, **parts: Any) -> Invocation:
    """Calls the function once with one event. `parts` are the parts that `event` takes, such as `key` and `headers`.

    A function with a batch size gets a list of this one event. An `async def` runs under asyncio.
    """
    with FunctionUnderTest(function) as tested:
        return tested.invoke(body, **parts)


def invoke_batch(function: Function, events: Sequence[Body | EventParts]) -> Invocation:
    """Calls the function once with a list of events."""
    with FunctionUnderTest(function) as tested:
        return tested.invoke_batch(events)


async def invoke_async(function: Function, body: Body | EventParts = None, **parts: Any) -> Invocation:
    """Does the same as `invoke`, in a test that runs under asyncio itself."""
    return await FunctionUnderTest(function).invoke_async(body, **parts)


def _parts(body: Body | EventParts, parts: dict[str, Any]) -> EventParts:
    if isinstance(body, EventParts):
        if parts:
            raise TypeError("give the parts of the event to event(...), not to the call")
        return body
    return event(body, **parts)


def _content(value: Body) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict | list):
        return msgspec.json.encode(value)
    raise TypeError(f"a body must be bytes, text, a dict, a list or None, not {type(value).__name__}")


def _is_under_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _completed(result: object, *, is_async: bool) -> Any:
    if is_async:
        return await result if inspect.isawaitable(result) else result
    refuse_awaitable(result)
    return result
