"""The program of a worker process: loads the function, handles chunks until it is told to stop, and reports.

Its messages have pipes of their own, so that what a function prints goes where the replica's own output goes. Only an
`async def` handler gets an event loop, which then also runs the tasks that handlers leave behind.
"""

import faulthandler
import gc
import inspect
import io
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from tailrace.runtime.workers.background_sender import BackgroundSender
from tailrace.runtime.workers.shared_page import clock
from tailrace.runtime.workers.watchdog import start_watchdog
from tailrace.runtime.workers.worker_side import EndOfWorkError, WorkerSide, die_with_parent, ignore_stop_signals
from tailrace.trigger.config.trigger_config import Acknowledgement
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.functions.function_loader import INIT_CONTEXT, Function, load
from tailrace.trigger.functions.function_source import FunctionLoadError
from tailrace.trigger.work import Chunk, Outcome

from .chunk_runner import ChunkRunner, HandlerVerdicts
from .context import Context
from .event import TRIGGER_KIND
from .event_logger import ForwardingHandler, LogSettings
from .failed_calls import message_of, position_of, refuse_awaitable
from .frames import SIZE_BYTES, CannotStart, Done, Ready, SettledLater, Start, Work, decode_to_worker, encode, size_in
from .held_events import HeldEvents
from .nuclio_platform import Callback, call_back
from .unsent_outputs import UnsentOutputs
from .worker_page import CHUNK, LEASE_UNTIL, NONE, OPEN, OUTPUTS_END, RUNNING, SAFE

_IDLE_LOOK_SECONDS = 0.1
"""How often the watchdog looks at a worker that has no lease."""


class CannotStartError(Exception):
    """The worker cannot handle events. The message is one sentence."""


class WorkerProgram:
    """A worker: its handler, and what connects it to the pool."""

    def __init__(self, side: WorkerSide, start: Start, function: Function) -> None:
        self._side = side
        self._sender = BackgroundSender()
        self._numbers = side.page.numbers
        config = start.config
        outputs = UnsentOutputs(side.page)
        self._held_events: HeldEvents | None = None
        if config.is_explicit:
            self._held_events = HeldEvents(self._sender.lock, self._numbers)
            self._sender.start(self._send_settled)
        verdicts = HandlerVerdicts(self._held_events, self._sender.wake)
        self.context = Context(
            start.worker_id,
            config.name,
            TRIGGER_KIND,
            outputs.emit if self._held_events is None else self._held_events.emit,
            verdicts.acknowledge_up_to,
            LogSettings(start.log_level, start.log_json),
        )
        self._runner = ChunkRunner(
            function.call,
            self.context,
            side.page,
            clock,
            is_async=function.is_async,
            outputs=outputs,
            held_events=self._held_events,
            acknowledges_returned=config.acknowledgement is Acknowledgement.EITHER,
            verdicts=verdicts,
            give_way=_give_way if function.is_async else None,
            directory=function.source.import_directory,
        )

    def serve(self) -> None:
        """Handles chunks with a plain function, until it is told to stop."""
        side = self._side
        while isinstance(work := decode_to_worker(side.read(size_in(side.read(SIZE_BYTES)))), Work):
            chunk = work.with_batches([side.read(size) for size in work.sizes])
            self._report(work.number, self._runner.run_now(chunk) if self._claim(work.number, chunk) else None)

    async def serve_in_loop(self) -> None:
        """Handles chunks in an event loop, which runs tasks of the function between them, until it is told to stop."""
        import asyncio  # it takes longer to import than a plain function's worker takes to start

        side = self._side
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        ended: list[BaseException] = []

        def receive() -> None:
            try:
                side.receive()
            except (EndOfWorkError, OSError) as error:
                ended.append(error)
                loop.remove_reader(side.input)
            arrived.set()

        async def read(count: int) -> bytes:
            while not side.has(count):
                if ended:
                    raise ended[0]
                arrived.clear()
                await arrived.wait()
            return side.read(count)

        loop.add_reader(side.input, receive)
        while isinstance(work := decode_to_worker(await read(size_in(await read(SIZE_BYTES)))), Work):
            chunk = work.with_batches([await read(size) for size in work.sizes])
            self._report(work.number, await self._runner.run(chunk) if self._claim(work.number, chunk) else None)
            await _give_way()
        loop.remove_reader(side.input)

    async def call_back(self, callbacks: Sequence[Callback]) -> None:
        """Calls what the function wants to be called when its worker stops."""
        for callback in callbacks:
            try:
                await call_back(callback)
            except Exception:
                self.context.logger.exception("a callback of the function has failed")

    def _claim(self, number: int, chunk: Chunk) -> bool:
        if not self._side.claim():
            return False
        # The pool looks at the other slots only if it finds the number of the chunk.
        self._numbers[OUTPUTS_END] = 0
        self._numbers[SAFE] = chunk.first
        self._numbers[CHUNK] = number
        return True

    def _report(self, number: int, outcome: Outcome | None) -> None:
        with self._sender.lock:
            frames = self._settled_frames()
            if self._held_events is not None and outcome is not None:
                opened, outputs = self._held_events.end_chunk()
                outcome = replace(outcome, opened=opened, outputs=outputs)
            self._side.write([*frames, encode(Done(number, outcome))])

    def _send_settled(self) -> None:
        frames = self._settled_frames()
        if frames:
            with suppress(EndOfWorkError):
                self._side.write(frames)

    def _settled_frames(self) -> list[bytes]:
        settled = () if self._held_events is None else self._held_events.take_settled()
        return [encode(SettledLater(settled))] if settled else []


async def _give_way() -> None:
    import asyncio

    await asyncio.sleep(0)


def run(side: WorkerSide) -> None:
    """Runs a worker until it is told to stop, or until the process that started it ends."""
    start_watchdog(side, lambda: next_look(side.page.numbers, side.page.times, clock()))
    start = decode_to_worker(side.read(size_in(side.read(SIZE_BYTES))))
    assert isinstance(start, Start)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        function = _loaded(start)
        program = WorkerProgram(side, start, function)
        gc.freeze()  # what is loaded is never garbage
        logging.basicConfig(level=start.log_level.upper(), handlers=[ForwardingHandler(program.context.logger)])
        init_context: Callable[[Context], Any] | None = function.init_context
        if function.is_async or inspect.iscoroutinefunction(init_context):
            import asyncio

            with asyncio.Runner() as runner:
                if init_context is not None:
                    runner.run(_initialised_in_loop(init_context, function, program.context))
                side.write([encode(Ready())])
                runner.run(program.serve_in_loop())
                runner.run(program.call_back(program.context.platform.pending_callbacks()))
        else:
            if init_context is not None:
                _initialised_at_once(init_context, function, program.context)
            side.write([encode(Ready())])
            program.serve()
            if callbacks := program.context.platform.pending_callbacks():
                import asyncio

                asyncio.run(program.call_back(callbacks))
    except CannotStartError as error:
        side.write([encode(CannotStart(str(error)))])


def next_look(numbers: "memoryview[int]", times: "memoryview[float]", now: float) -> float | None:
    """Returns after how many seconds the watchdog looks again; None if the worker must end, because its lease is over
    while an event is running or open."""
    left = times[LEASE_UNTIL] - now
    if left > 0:
        return left
    return _IDLE_LOOK_SECONDS if numbers[RUNNING] == NONE and not numbers[OPEN] else None


def _loaded(start: Start) -> Function:
    try:
        return load(start.source)
    except (FunctionLoadError, TriggerConfigError) as error:
        raise CannotStartError(str(error)) from None


def _initialised(init_context: Callable[[Context], Any], function: Function, context: Context) -> Awaitable[Any] | None:
    try:
        result: Awaitable[Any] | None = init_context(context)
    except BaseException as error:
        raise _not_initialised(error, function) from None
    return result


def _initialised_at_once(init_context: Callable[[Context], Any], function: Function, context: Context) -> None:
    result = _initialised(init_context, function, context)
    try:
        refuse_awaitable(result, INIT_CONTEXT)
    except TypeError as error:
        raise _not_initialised(error, function) from None


async def _initialised_in_loop(init_context: Callable[[Context], Any], function: Function, context: Context) -> None:
    waiting = _initialised(init_context, function, context)
    if inspect.isawaitable(waiting):
        try:
            await waiting
        except BaseException as error:
            raise _not_initialised(error, function) from None


def _not_initialised(error: BaseException, function: Function) -> CannotStartError:
    what = " ".join(message_of(error).split())
    place = position_of(error, function.source.import_directory)
    text = f"{function.source.path}: init_context failed: {type(error).__qualname__}{': ' if what else ''}{what}"
    return CannotStartError(f"{text} ({place})" if place else text)


def main() -> None:
    """Runs a worker with the descriptors that its last argument names."""
    side = WorkerSide(sys.argv[-1])
    die_with_parent()
    ignore_stop_signals()
    faulthandler.enable()
    with suppress(EndOfWorkError):
        run(side)


if __name__ == "__main__":
    main()
