"""The loop of a worker, in this process: what the page shows at each moment, and when a chunk ends early."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from worker_pools import batch_of, chunk_of

from tailrace.protocol.batches.control_batches import hole
from tailrace.runtime.workers.shared_page import CONTENT_BYTES, SharedPage
from tailrace.trigger.work import Chunk, FailureKind, Outcome, Shard
from tailrace.trigger.worker import chunk_runner
from tailrace.trigger.worker.chunk_runner import ChunkRunner, HandlerVerdicts, completed
from tailrace.trigger.worker.context import Context
from tailrace.trigger.worker.event import Event
from tailrace.trigger.worker.unsent_outputs import UnsentOutputs
from tailrace.trigger.worker.worker_page import BEGIN_UNTIL, NONE, RUNNING, RUNNING_END, SAFE, STARTED


class Running:
    """A runner with a clock that the test moves."""

    def __init__(self, call: Callable[[Context, Any], Any], *, is_async: bool = False) -> None:
        self.now = 1.0
        self.page = SharedPage()
        self.page.times[BEGIN_UNTIL] = float("inf")
        outputs = UnsentOutputs(self.page)
        self.context = Context(0, "billing", "kafka-cluster", outputs.emit, lambda shard, offset: None)
        self.runner = ChunkRunner(
            call,
            self.context,
            self.page,
            lambda: self.now,
            is_async=is_async,
            outputs=outputs,
            held_events=None,
            verdicts=HandlerVerdicts(None, lambda: None),
            give_way=self._give_way,
            directory="/",
        )

    async def _give_way(self) -> None:
        await asyncio.sleep(0)

    def run(self, chunk: Chunk) -> Outcome:
        return self.runner.run_now(chunk)


def test_the_page_shows_what_is_running_and_what_is_safe() -> None:
    seen = []

    def call(context: Context, event: Event) -> None:
        numbers = running.page.numbers
        seen.append((numbers[RUNNING], numbers[RUNNING_END], numbers[SAFE], running.page.times[STARTED]))
        if event.offset == 5:
            context.emit("out")
        if event.offset == 6:
            context.emit("out", bytes(CONTENT_BYTES))
        running.now += 1

    running = Running(call)
    outcome = running.run(chunk_of(*"abcd", first=4))
    # The page has the output of the second event, but it is too small for that of the third, which ends the chunk.
    assert seen == [(4, NONE, 4, 1.0), (5, NONE, 5, 2.0), (6, NONE, 6, 3.0)]
    assert running.page.numbers[SAFE] == 6
    assert running.page.numbers[RUNNING] == NONE
    assert (outcome.next_offset, outcome.events, len(outcome.outputs), outcome.handler_seconds) == (7, 3, 2, 3.0)


def test_the_page_shows_the_end_of_a_running_batch() -> None:
    seen = []
    running = Running(lambda context, events: seen.append(tuple(running.page.numbers[RUNNING : SAFE + 1])))
    assert running.run(chunk_of(*"abc", batch_size=2)).events == 3
    assert seen == [(0, 2, 0), (2, 3, 2)]


def test_a_chunk_ends_early_after_its_time_but_not_without_an_event() -> None:
    def call(context: Context, event: Event) -> None:
        running.now += 1

    running = Running(call)
    chunk = chunk_of(*"abcd")
    for seconds, handled in ((0.0, 1), (1.0, 1), (1.5, 2), (9.0, 4)):
        limited = Chunk(chunk.shard, chunk.batches, chunk.first, chunk.end, seconds_max=seconds)
        outcome = running.run(limited)
        assert (outcome.next_offset, outcome.events, outcome.failure) == (handled, handled, None)


def test_no_event_begins_when_the_lease_is_over() -> None:
    def call(context: Context, event: Event) -> None:
        running.page.times[BEGIN_UNTIL] = running.now

    running = Running(call)
    assert running.run(chunk_of(*"abc")).next_offset == 1
    assert running.run(chunk_of(*"abc")).next_offset == 0


def test_many_bytes_of_outputs_end_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_runner, "OUTPUT_BYTES_MAX", 5)
    running = Running(lambda context, event: context.emit("out", "abc"))
    outcome = running.run(chunk_of(*"abcd"))
    assert (outcome.next_offset, len(outcome.outputs)) == (2, 2)
    assert running.run(chunk_of(*"abcd")).next_offset == 2


def test_holes_are_passed_over() -> None:
    running = Running(lambda context, event: None)
    batches = [bytes(hole(0, 4, 1)), batch_of("a", first=4), bytes(hole(5, 9, 1))]
    outcome = running.run(Chunk(Shard("orders", 0), batches, 0, 9))
    assert (outcome.next_offset, outcome.events) == (9, 1)
    outcome = running.run(Chunk(Shard("orders", 0), batches[:1], 0, 4))
    assert (outcome.next_offset, outcome.events) == (4, 0)


def test_bytes_that_are_no_batch_are_unreadable_up_to_the_end_of_the_chunk() -> None:
    running = Running(lambda context, events: None)
    for batch_size in (0, 5):
        batches = [batch_of("a", "b"), b"not a batch"]
        outcome = running.run(Chunk(Shard("orders", 0), batches, 0, 9, batch_size=batch_size))
        failure = outcome.failure
        assert failure is not None
        assert (outcome.next_offset, outcome.events) == (2, 2)
        assert (failure.kind, failure.offset, failure.end) == (FailureKind.UNREADABLE, 2, 9)
        assert failure.message.startswith("orders/0: the records from 2 on cannot be read")


def test_an_event_that_is_reported_as_failed_fails() -> None:
    def call(context: Context, event: Event) -> None:
        context.emit("out")
        event.fail("not paid")

    outcome = Running(call).run(chunk_of(*"abc"))
    assert outcome.failure is not None
    assert (outcome.next_offset, outcome.events, outcome.outputs) == (0, 0, ())
    assert (outcome.failure.message, outcome.failure.failed_offsets) == ("not paid", ())


def test_only_events_of_the_running_call_can_fail_and_acknowledging_needs_a_setting() -> None:
    kept: list[Event] = []
    running = Running(lambda context, event: kept.append(event))
    running.run(chunk_of("a"))
    with pytest.raises(RuntimeError, match="orders/0/0 is not being handled any more"):
        kept[0].fail()
    with pytest.raises(RuntimeError, match='set acknowledgement="explicit"'):
        kept[0].acknowledge()


def test_a_plain_function_that_returns_a_coroutine_has_not_handled_the_event() -> None:
    async def handle(event: Event) -> None:
        raise AssertionError("no loop runs this")

    outcome = Running(lambda context, event: handle(event)).run(chunk_of("a"))
    assert (outcome.next_offset, outcome.events) == (0, 0)
    assert outcome.failure is not None
    assert outcome.failure.message == "the function returned something that must be awaited: define it with async def"


def test_tasks_run_although_the_handler_never_waits() -> None:
    ran: list[int] = []

    async def other(number: int) -> None:
        ran.append(number)

    async def call(context: Context, event: Event) -> None:
        if event.offset == 0:
            task = asyncio.create_task(other(0))
            tasks.add(task)
        running.now += 1
        if event.offset == 3:
            assert ran == [0]

    tasks: set[asyncio.Task[None]] = set()
    running = Running(call, is_async=True)
    with asyncio.Runner() as runner:
        outcome = runner.run(running.runner.run(chunk_of(*"abcd")))
    assert (outcome.events, outcome.failure) == (4, None)


def test_a_coroutine_that_waits_cannot_be_completed_at_once() -> None:
    with pytest.raises(RuntimeError, match="cannot wait"):
        completed(asyncio.sleep(0))
