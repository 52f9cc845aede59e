"""Handles one chunk of records: decodes them, calls the handler for each event or batch, and makes the outcome.

There is one loop for all kinds of handlers. It is a coroutine, which never waits if the handler is a plain function, so
that `run_now` can drive it without an event loop. A record costs one look at the clock, and four writes to the shared
page, which tell the pool what to do if this process dies within the call.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.workers.shared_page import SharedPage
from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Shard

from .context import Context
from .event import Event, TriggerInfo
from .event_decoder import open_batch
from .failed_calls import failure_of, refuse_awaitable
from .held_events import HeldEvents
from .nuclio_platform import keeps_open
from .unsent_outputs import UnsentOutputs
from .worker_page import BEGIN_UNTIL, NONE, RUNNING, RUNNING_END, SAFE, STARTED

OUTPUT_BYTES_MAX = 1 << 20
"""A worker with more bytes of outputs than this takes no further event of the chunk, and reports."""
YIELD_SECONDS = 0.005
"""How long other tasks of an `async def` handler wait at most while its events need no waiting."""
_DECODED_AT_ONCE = (16, 256)
"""How many records are decoded at once: few at first, for slow handlers, and then more."""
_AWS_FAILURES = "batchItemFailures"
_AWS_ID = "itemIdentifier"

T = TypeVar("T")
Call = Callable[[Context, Any], Any]
"""A handler. What it returns depends on the user."""


class HandlerVerdicts:
    """What handlers say about events: that one is acknowledged, or that one of a batch has failed."""

    def __init__(self, held_events: HeldEvents | None, wake_sender: Callable[[], None]) -> None:
        """Prepares to take verdicts. `held_events` is None if events are acknowledged when the handler returns."""
        self._held_events = held_events
        self._wake_sender = wake_sender
        self.failed: dict[int, str] = {}
        """The events of the running call that have failed, and why."""
        self.running: Sequence[Event] = ()
        """The events of the running call."""

    def acknowledge(self, event: Event) -> None:
        if self._explicit().acknowledge(event):
            self._wake_sender()

    def acknowledge_up_to(self, shard: Shard, offset: int) -> None:
        """Acknowledges the open events of a shard up to an offset."""
        if self._explicit().acknowledge_up_to(shard, offset):
            self._wake_sender()

    def _explicit(self) -> HeldEvents:
        if self._held_events is None:
            raise RuntimeError(
                "events of this trigger are acknowledged when the handler returns: "
                'set acknowledgement="explicit" to acknowledge them yourself'
            )
        return self._held_events

    def fail(self, event: Event, reason: str) -> None:
        if not any(each is event for each in self.running):
            raise RuntimeError(
                f"{event.id} is not being handled any more, so it cannot fail: raise, or fail it earlier"
            )
        self.failed[event.offset] = reason

    def fail_by_ids(self, result: object) -> None:
        """Takes the failed items of a batch in the form of AWS Lambda, which a handler may return."""
        items = result.get(_AWS_FAILURES) if isinstance(result, dict) else None
        if not isinstance(items, list):
            return
        wanted = {str(item.get(_AWS_ID)) for item in items if isinstance(item, dict)}
        for event in self.running:
            if event.id in wanted or str(event.offset) in wanted:
                self.failed[event.offset] = ""


class UnreadableError(Exception):
    """Records of a chunk cannot be decoded."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ChunkRunner:
    """Handles chunks, one after the other, with one handler."""

    def __init__(
        self,
        call: Call,
        context: Context,
        page: SharedPage,
        clock: Callable[[], float],
        *,
        is_async: bool,
        outputs: UnsentOutputs,
        held_events: HeldEvents | None,
        acknowledges_returned: bool = False,
        verdicts: HandlerVerdicts,
        give_way: Callable[[], Coroutine[Any, Any, None]] | None,
        directory: str,
    ) -> None:
        """Prepares the runner. `give_way` lets other tasks of the event loop run. `directory` has the user's source.

        With `acknowledges_returned` an event that is held is acknowledged when its handler returns, unless what the
        handler returns keeps it open.
        """
        self._acknowledges_returned = acknowledges_returned
        self._call = call
        self._context = context
        self._page = page
        self._clock = clock
        self._is_async = is_async
        self._outputs = outputs
        self._held_events = held_events
        self._verdicts = verdicts
        self._give_way = give_way
        self._directory = directory
        self._trigger = TriggerInfo(context.trigger_kind, context.trigger_name)

    def run_now(self, chunk: Chunk) -> Outcome:
        """Handles a chunk with a handler that is a plain function."""
        return completed(self.run(chunk))

    async def run(self, chunk: Chunk) -> Outcome:
        """Handles a chunk. With explicit acknowledgement the outcome lacks opened events and outputs: see
        `HeldEvents.end_chunk`."""
        call, context, clock = self._call, self._context, self._clock
        numbers, times = self._page.numbers, self._page.times
        outputs, held_events, verdicts = self._outputs, self._held_events, self._verdicts
        is_async, is_single = self._is_async, not chunk.batch_size
        keeps_task = is_async or held_events is not None
        unsent, failed = outputs.emitted, verdicts.failed
        next_offset = numbers[SAFE] = chunk.first
        numbers[RUNNING_END] = NONE
        is_kept = True
        handled = 0
        failure: Failure | None = None
        started = now = clock()
        stop_at = started + chunk.seconds_max
        give_way_at = started + YIELD_SECONDS
        units: Iterator[Any] = self._events(chunk) if is_single else self._batches(chunk)
        events: Sequence[Event]
        try:
            for unit in units:
                now = clock()
                if now >= times[BEGIN_UNTIL] or (now >= stop_at and handled):
                    break
                if is_single:
                    event: Event = unit
                    events = (event,)
                    offset = event.offset
                    end = offset + 1
                else:
                    events = unit
                    event = events[0]
                    offset = event.offset
                    end = events[-1].offset + 1
                    numbers[RUNNING_END] = end
                context.handled = event
                verdicts.running = events
                if keeps_task:
                    context.handled_in_task.set(event)
                    if held_events is not None:
                        held_events.begin(events)
                times[STARTED] = now
                numbers[RUNNING] = offset
                try:
                    result = call(context, unit)
                    if is_async:
                        result = await result
                    elif result is not None:
                        refuse_awaitable(result)
                except BaseException as error:
                    numbers[RUNNING] = NONE
                    failure = self._failed(error, events, offset, end)
                    if failure is not None:
                        break
                    result = None
                numbers[RUNNING] = NONE
                if result is not None and not is_single:
                    verdicts.fail_by_ids(result)
                if failed:
                    handled += len(events) - len(failed)
                    failure = self._failed_items(events, offset, end)
                    break
                next_offset = end
                handled += len(events)
                if held_events is None:
                    if not unsent:
                        numbers[SAFE] = end
                    else:
                        is_kept = is_kept and outputs.keep()
                        if is_kept:
                            numbers[SAFE] = end
                        if outputs.bytes > OUTPUT_BYTES_MAX:
                            break
                else:
                    if self._acknowledges_returned and not keeps_open(result):
                        for each in events:
                            held_events.acknowledge(each)
                    if held_events.is_settled():
                        numbers[SAFE] = end
                if is_async and now >= give_way_at:
                    assert self._give_way is not None
                    await self._give_way()
                    give_way_at = clock() + YIELD_SECONDS
            else:
                next_offset = chunk.end
        except UnreadableError as error:
            failure = error.failure
        context.handled = None
        verdicts.running = ()
        if keeps_task:
            context.handled_in_task.set(None)
        return Outcome(
            next_offset=next_offset,
            events=handled,
            outputs=outputs.take() if held_events is None else (),
            failure=failure,
            handler_seconds=clock() - started,
        )

    def _batches(self, chunk: Chunk) -> Iterator[list[Event]]:
        """Yields the events of a chunk in lists. Raises UnreadableError after the last readable one."""
        batch: list[Event] = []
        try:
            for event in self._events(chunk):
                batch.append(event)
                if len(batch) == chunk.batch_size:
                    yield batch
                    batch = []
        except UnreadableError:
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def _events(self, chunk: Chunk) -> Iterator[Event]:
        """Yields the events of a chunk. Raises UnreadableError after the last readable one."""
        wanted = None if chunk.offsets is None else frozenset(chunk.offsets)
        count = _DECODED_AT_ONCE[0]
        reached = chunk.first
        for batch in chunk.batches:
            try:
                decoder = open_batch(
                    batch, chunk.shard, self._trigger, self._verdicts, retried=chunk.first, attempt=chunk.attempt
                )
                if decoder is None:
                    continue
                while events := decoder.next_events(count, reached, chunk.end):
                    count = _DECODED_AT_ONCE[1]
                    if wanted is not None:
                        events = [event for event in events if event.offset in wanted]
                    yield from events
                    reached = max(reached, decoder.next_offset)
            except KafkaError as error:
                raise UnreadableError(_unreadable(chunk.shard, batch, reached, chunk.end, error)) from None

    def _failed(self, error: BaseException, events: Sequence[Event], offset: int, end: int) -> Failure | None:
        self._outputs.forget(events)
        self._verdicts.failed.clear()
        if self._held_events is not None and not self._held_events.fail(events):
            self._context.logger.error("the handler has failed after it had acknowledged the event", exc_info=error)
            return None
        return failure_of(error, offset, end, self._directory)

    def _failed_items(self, events: Sequence[Event], offset: int, end: int) -> Failure:
        failed = dict(self._verdicts.failed)
        self._verdicts.failed.clear()
        of_failed = [event for event in events if event.offset in failed]
        if len(failed) == len(events):
            self._outputs.forget(events)
        if self._held_events is not None:
            self._held_events.fail(of_failed)
        reasons = [reason for reason in failed.values() if reason]
        return Failure(
            kind=FailureKind.RAISED,
            offset=offset,
            end=end,
            error="ReportedFailure",
            message=reasons[0] if reasons else "the handler reported the event as failed",
            failed_offsets=tuple(sorted(failed)) if len(failed) < len(events) else (),
        )


def _unreadable(shard: Shard, batch: bytes, reached: int, end: int, error: KafkaError) -> Failure:
    try:
        header = read_header(batch)
        reached, end = max(reached, header.base_offset), min(end, header.next_offset)
    except KafkaError:
        pass  # nothing is known about the rest of the chunk
    return Failure(
        kind=FailureKind.UNREADABLE,
        offset=reached,
        end=max(end, reached + 1),
        error="CorruptRecord",
        message=f"{shard}: the records from {reached} on cannot be read: {error.message or error}",
    )


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        value: T = result.value
        return value
    coroutine.close()
    raise RuntimeError("a plain function cannot wait")
