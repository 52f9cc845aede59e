import trio
from worker_pools import chunk_of

from tailrace.runtime.workers.shared_page import SharedPage
from tailrace.trigger.pool.live_worker import FAST_SECONDS, EndReason, Job, LiveWorker
from tailrace.trigger.work import Shard
from tailrace.trigger.worker.worker_page import RUNNING, STARTED


class Process:
    """A process that only counts what is done to it."""

    pid = 7

    def __init__(self) -> None:
        self.page = SharedPage()
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1


def worker_with(process: Process) -> LiveWorker:
    worker = LiveWorker(0, process, 10.0)  # type: ignore[arg-type]
    worker.is_ready = True
    return worker


def a_job(number: int = 1) -> Job:
    return Job(number, chunk_of("a"), trio.Event())


def test_a_worker_takes_a_chunk_in_advance_only_if_its_events_are_quick() -> None:
    worker = worker_with(Process())
    assert worker.takes_chunk
    worker.sent.append(a_job())
    assert (worker.takes_chunk, worker.takes_chunk_in_advance) == (False, False)
    worker.seconds_per_event = FAST_SECONDS / 2
    assert worker.takes_chunk_in_advance
    worker.sent.append(a_job(2))
    assert not worker.takes_chunk_in_advance
    assert worker.in_advance is worker.sent[1]
    worker.sent[1] = None
    worker.sent.popleft()
    assert not worker.takes_chunk_in_advance  # until the worker has seen that the chunk was revoked


def test_a_worker_that_is_not_ready_or_retires_or_is_paused_takes_nothing() -> None:
    worker = worker_with(Process())
    worker.is_ready = False
    assert not worker.takes_chunk
    worker.is_ready = worker.is_paused = True
    assert not worker.takes_chunk
    worker.is_paused = False
    worker.retire(5.0)
    assert not worker.takes_chunk


def test_the_first_reason_to_end_a_worker_counts() -> None:
    process = Process()
    worker = worker_with(process)
    worker.end(EndReason("first"))
    worker.end(EndReason("second"))
    assert (worker.end_reason, process.kills, worker.takes_chunk) == (EndReason("first"), 1, False)


def test_a_worker_is_overdue_by_its_running_event_or_by_what_it_was_last_seen_to_do() -> None:
    process = Process()
    worker = worker_with(process)
    process.page.numbers[RUNNING], process.page.times[STARTED] = 3, 20.0
    assert worker.overdue_at(worker.look(21.0), 5.0) == 25.0
    process.page.numbers[RUNNING] = -1
    assert worker.overdue_at(worker.look(22.0), 5.0) == 27.0
    assert worker.overdue_at(worker.look(26.0), 5.0) == 27.0


def test_a_retiring_worker_stops_when_nothing_is_open_or_at_its_time() -> None:
    worker = worker_with(Process())
    worker.opened.add((Shard("orders", 0), 3))
    worker.ask_to_stop_if_idle(1.0)
    worker.retire(5.0)
    worker.ask_to_stop_if_idle(4.0)
    assert not worker.was_asked_to_stop
    worker.ask_to_stop_if_idle(5.0)
    assert worker.was_asked_to_stop
    assert worker.to_send.receive_nowait() is None
    worker.ask_to_stop_if_idle(6.0)
    assert worker.to_send.statistics().current_buffer_used == 0
