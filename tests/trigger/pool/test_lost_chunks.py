from worker_pools import chunk_of

from tailrace.trigger.pool.lost_chunks import ended_by_itself, outcome_of_lost, timed_out, too_much_memory
from tailrace.trigger.work import Failure, FailureKind, Outcome, Output
from tailrace.trigger.worker.worker_page import NONE, Doing

CHUNK = chunk_of(*"abcdef", first=4)


def doing(running: int, safe: int, running_end: int = NONE) -> Doing:
    return Doing(chunk=1, running=running, running_end=running_end, safe=safe, open=0, started=0.0)


def test_the_running_event_has_failed_and_what_is_safe_is_handled() -> None:
    cause = ended_by_itself("SIGSEGV")
    text = "the worker ended with SIGSEGV while it handled the event"
    failure = Failure(FailureKind.WORKER_ENDED, 7, 8, "SIGSEGV", text)
    outputs = (Output("out", None, None),)
    assert outcome_of_lost(CHUNK, doing(7, 7), outputs, cause) == Outcome(7, 3, outputs, failure)
    assert outcome_of_lost(CHUNK, doing(7, 5), (), cause) == Outcome(5, 1, failure=failure)


def test_a_whole_running_batch_has_failed() -> None:
    failure = outcome_of_lost(CHUNK, doing(6, 6, 9), (), timed_out(2.0)).failure
    assert failure is not None
    assert (failure.kind, failure.offset, failure.end) == (FailureKind.TIMED_OUT, 6, 9)
    assert failure.message == "the handler took longer than 2 s, so its worker was killed"


def test_without_a_running_event_or_a_cause_nothing_has_failed() -> None:
    assert outcome_of_lost(CHUNK, doing(NONE, 6), (), ended_by_itself("SIGKILL")) == Outcome(6, 2)
    assert outcome_of_lost(CHUNK, doing(6, 6), (), None) == Outcome(6, 2)


def test_what_is_safe_lies_within_the_chunk() -> None:
    assert outcome_of_lost(CHUNK, doing(NONE, 0), (), None) == Outcome(4)
    assert outcome_of_lost(CHUNK, doing(NONE, 99), (), None) == Outcome(10, 6)


def test_causes_in_words() -> None:
    assert "because memory ran out" in ended_by_itself("SIGKILL").message
    assert too_much_memory(300 << 20, 100 << 20).message == (
        "the worker used 300 MiB while it handled the event; its limit is 100 MiB"
    )
