"""The open events that a worker holds, with explicit acknowledgement, and what they have emitted.

Handlers, their tasks and their threads acknowledge events and emit at any time, so everything here happens under one
lock. It is the lock under which the worker sends: an acknowledgement never overtakes the outcome that opened its event.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from tailrace.trigger.work import Output, Settled, Shard

from .event import Event
from .worker_page import OPEN


class HeldEvents:
    """The events that a worker has open."""

    def __init__(self, lock: AbstractContextManager[object], numbers: "memoryview[int]") -> None:
        self.lock = lock
        self._numbers = numbers
        self._shard: Shard | None = None
        """The shard of the chunk that is being handled."""
        self._begun: dict[int, list[Output]] = {}
        """The events of this chunk that a handler got and that are open, and what each has emitted."""
        self._ready: list[Output] = []
        """What acknowledged events of this chunk have emitted."""
        self._open: dict[tuple[Shard, int], list[Output]] = {}
        """The open events of earlier chunks."""
        self._settled: list[Settled] = []
        """Events of earlier chunks that were acknowledged since the last report."""

    def begin(self, events: Sequence[Event]) -> None:
        """Opens events, before the handler gets them."""
        with self.lock:
            for event in events:
                self._shard = event.shard
                self._open.pop((event.shard, event.offset), None)  # it was handed out again
                self._begun[event.offset] = []
            self._count()

    def fail(self, events: Sequence[Event]) -> bool:
        """Forgets events whose handler has failed, and what they have emitted. Returns False if all of them were
        acknowledged before."""
        with self.lock:
            are_open = [self._begun.pop(event.offset, None) is not None for event in events]
            self._count()
        return any(are_open)

    def is_settled(self) -> bool:
        """Whether no event of this chunk is open, and nothing that they emitted is unsent."""
        return not self._begun and not self._ready

    def emit(self, event: Event | None, output: Output) -> None:
        """Keeps an output until its event is acknowledged. Raises RuntimeError if that cannot happen any more."""
        with self.lock:
            if event is None:
                raise RuntimeError("emit: in a thread of the handler, name the event: context.emit(..., event=event)")
            outputs = self._outputs(event)
            if outputs is None:
                raise RuntimeError(f"emit: {event.id} is not open any more: emit before the acknowledgement")
            outputs.append(output)

    def acknowledge(self, event: Event) -> bool:
        """Takes an acknowledgement. Returns whether it must be sent apart from the outcome of a chunk."""
        with self.lock:
            if event.shard == self._shard and event.offset in self._begun:
                self._ready += self._begun.pop(event.offset)
            else:
                outputs = self._open.pop((event.shard, event.offset), None)
                if outputs is None:
                    return False
                self._settled.append(Settled(event.shard, event.offset, True, tuple(outputs)))
            self._count()
            return bool(self._settled)

    def acknowledge_up_to(self, shard: Shard, offset: int) -> bool:
        """Takes the acknowledgement of all open events of a shard up to an offset. Returns what `acknowledge` does."""
        with self.lock:
            if shard == self._shard:
                for each in sorted(each for each in self._begun if each <= offset):
                    self._ready += self._begun.pop(each)
            for key in sorted(key for key in self._open if key[0] == shard and key[1] <= offset):
                self._settled.append(Settled(*key, True, tuple(self._open.pop(key))))
            self._count()
            return bool(self._settled)

    def end_chunk(self) -> tuple[tuple[int, ...], tuple[Output, ...]]:
        """Returns the events of the chunk that stay open, and what the others have emitted. The caller holds the lock
        until it has sent the outcome."""
        opened, outputs = tuple(self._begun), tuple(self._ready)
        if self._shard is not None:
            shard = self._shard
            self._open |= {(shard, offset): emitted for offset, emitted in self._begun.items()}
        self._shard, self._begun, self._ready = None, {}, []
        return opened, outputs

    def take_settled(self) -> tuple[Settled, ...]:
        """Returns the events that were acknowledged after their chunk. The caller holds the lock."""
        settled, self._settled = tuple(self._settled), []
        return settled

    def _outputs(self, event: Event) -> list[Output] | None:
        if event.shard == self._shard and event.offset in self._begun:
            return self._begun[event.offset]
        return self._open.get((event.shard, event.offset))

    def _count(self) -> None:
        self._numbers[OPEN] = len(self._begun) + len(self._open)
