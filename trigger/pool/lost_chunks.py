"""Decides what became of the chunk that a worker had when its process ended. Pure."""

from msgspec import Struct

from tailrace.trigger.work import Chunk, Failure, FailureKind, Outcome, Output
from tailrace.trigger.worker.worker_page import NONE, Doing

_KILLED = "SIGKILL"


class Cause(Struct, frozen=True):
    """Why a worker ended in the middle of an event, as far as the event is to blame."""

    kind: FailureKind
    error: str
    message: str

    def blames(self, offset: int, end: int) -> Failure:
        """Makes the failure of an event, or of a batch of events."""
        return Failure(self.kind, offset, end, self.error, self.message)


def ended_by_itself(ending: str) -> Cause:
    """Makes the cause of a worker that the pool did not end. `ending` says how, for example `SIGSEGV` or `status 3`."""
    if ending == _KILLED:
        what = "was killed with SIGKILL while it handled the event, for example because memory ran out"
    else:
        what = f"ended with {ending} while it handled the event"
    return Cause(FailureKind.WORKER_ENDED, ending, f"the worker {what}")


def timed_out(seconds: float) -> Cause:
    """Makes the cause of a worker whose event has exceeded its deadline."""
    message = f"the handler took longer than {seconds:g} s, so its worker was killed"
    return Cause(FailureKind.TIMED_OUT, "TimedOut", message)


def too_much_memory(used: int, limit: int) -> Cause:
    """Makes the cause of a worker whose event has made it grow far beyond its limit."""
    message = f"the worker used {used >> 20} MiB while it handled the event; its limit is {limit >> 20} MiB"
    return Cause(FailureKind.WORKER_ENDED, "MemoryLimit", message)


def outcome_of_lost(chunk: Chunk, last: Doing, outputs: tuple[Output, ...], cause: Cause | None) -> Outcome:
    """Makes the outcome of the chunk that the worker had begun, from its page. An event that was running has failed,
    unless `cause` is None because the event is not to blame. `outputs` are those of the events that are safe.

    The number of handled events is that of their offsets. It is too large where the topic has lost records, for
    example by compaction.
    """
    failure = None
    if cause is not None and last.running != NONE:
        failure = cause.blames(last.running, max(last.running + 1, last.running_end))
    safe = min(max(last.safe, chunk.first), chunk.end)
    return Outcome(next_offset=safe, events=safe - chunk.first, outputs=outputs, failure=failure)
