"""The dispatcher with workers whose processes are played by the test."""

from worker_pools import chunk_of

from tailrace.runtime.workers.shared_page import SharedPage
from tailrace.trigger.pool.dispatcher import PATIENCE_SECONDS, Dispatcher, Lease
from tailrace.trigger.pool.live_worker import Job, LiveWorker
from tailrace.trigger.pool.lost_chunks import ended_by_itself
from tailrace.trigger.work import Outcome, Settled, Shard
from tailrace.trigger.worker.worker_page import BEGIN_UNTIL, CHUNK, RUNNING, SAFE

QUICK = Outcome(next_offset=1, events=1000, handler_seconds=0.001)
SLOW = Outcome(next_offset=1, events=1, handler_seconds=1.0)


class Process:
    """A process that counts grants; the test claims them."""

    pid = 7

    def __init__(self) -> None:
        self.page = SharedPage()
        self.grants = 0

    def grant(self) -> None:
        self.grants += 1

    def revoke(self) -> bool:
        if not self.grants:
            return False
        self.grants -= 1
        return True

    def kill(self) -> None: ...


class World:
    """A dispatcher, its workers, and the time."""

    def __init__(self, workers: int) -> None:
        self.now = 1.0
        self.lease = Lease(until=100.0)
        self.dispatcher = Dispatcher(self.lease, lambda: self.now)
        self.processes = [Process() for _ in range(workers)]
        for place, process in enumerate(self.processes):
            worker = LiveWorker(place, process, self.now)  # type: ignore[arg-type]
            worker.is_ready = True
            self.dispatcher.workers[place] = worker

    def worker(self, place: int) -> LiveWorker:
        return self.dispatcher.workers[place]

    def sent(self) -> list[list[int | None]]:
        """The numbers of the chunks that each worker has."""
        return [[job and job.number for job in self.worker(place).sent] for place in range(len(self.processes))]

    def submit(self, shard: int = 0) -> Job:
        return self.dispatcher.submit(chunk_of("a", "b", shard=shard))

    def finish(self, place: int, outcome: Outcome = QUICK) -> None:
        """Lets a worker claim and report its oldest chunk."""
        job = self.worker(place).sent[0]
        assert job is not None
        self.processes[place].grants -= 1
        self.worker(place).to_send.receive_nowait()
        self.dispatcher.on_done(self.worker(place), job.number, outcome)

    def skip(self, place: int, number: int) -> None:
        """Lets a worker find that its oldest chunk was revoked."""
        self.worker(place).to_send.receive_nowait()
        self.dispatcher.on_done(self.worker(place), number, None)


def test_free_workers_take_the_chunks_that_wait_longest() -> None:
    world = World(2)
    for shard in range(4):
        world.submit(shard)
    assert world.sent() == [[1], [2]]
    world.finish(1, SLOW)
    assert world.sent() == [[1], [3]]
    world.finish(0, SLOW)
    assert world.sent() == [[4], [3]]


def test_a_worker_with_quick_events_has_its_next_chunk_in_advance() -> None:
    world = World(1)
    for shard in range(4):
        world.submit(shard)
    world.finish(0)
    assert world.sent() == [[2, 3]]
    world.finish(0, SLOW)
    assert world.sent() == [[3]]


def test_nothing_is_sent_without_a_lease() -> None:
    world = World(1)
    world.lease.until = 1.0
    job = world.submit()
    assert (world.sent(), world.dispatcher.has_work, job.done.is_set()) == ([[]], True, False)
    world.lease.until = 2.0
    world.dispatcher.dispatch()
    assert world.sent() == [[1]]


def a_chunk_behind_another(world: World) -> Job:
    """Gives two chunks to worker 0, and none to worker 1."""
    world.submit()
    world.finish(0)
    world.worker(1).is_ready = False
    world.submit(1)
    behind = world.submit(2)
    world.processes[0].grants = 1  # it has claimed the first
    world.worker(1).is_ready = True
    assert world.sent() == [[2, 3], []]
    return behind


def test_a_free_worker_takes_over_a_chunk_that_waits_behind_another() -> None:
    world = World(2)
    a_chunk_behind_another(world)
    assert world.dispatcher.take_from_slow(world.now) == world.now + PATIENCE_SECONDS
    world.now += PATIENCE_SECONDS
    world.dispatcher.take_from_slow(world.now)
    assert world.sent() == [[2, None], [3]]
    world.finish(0)
    world.submit(3)
    assert world.sent() == [[None], [3]]  # nothing more until the worker has seen that the chunk is gone
    world.skip(0, 3)
    assert world.sent() == [[4], [3]]


def test_a_chunk_that_was_claimed_is_not_taken_over() -> None:
    world = World(2)
    a_chunk_behind_another(world)
    world.processes[0].grants = 0
    world.now += PATIENCE_SECONDS
    assert world.dispatcher.take_from_slow(world.now) == float("inf")
    assert world.sent() == [[2, 3], []]


def test_the_chunk_of_a_dead_worker_has_an_outcome_and_others_go_to_the_next_worker() -> None:
    world = World(1)
    world.submit()
    world.finish(0)
    first, second = world.submit(1), world.submit(2)
    numbers = world.processes[0].page.numbers
    numbers[CHUNK], numbers[RUNNING], numbers[SAFE] = first.number, 1, 1
    dead = world.dispatcher.workers.pop(0)
    world.dispatcher.on_ended(dead, ended_by_itself("SIGSEGV"))
    assert first.outcome is not None
    assert first.outcome.failure is not None
    assert (first.outcome.next_offset, first.outcome.failure.offset, second.done.is_set()) == (1, 1, False)
    assert dead.has_worked
    world.dispatcher.workers[0] = World(1).worker(0)
    world.dispatcher.dispatch()
    assert world.sent() == [[second.number]]


def test_an_event_before_which_workers_end_again_and_again_is_to_blame() -> None:
    world = World(1)
    failures = []
    for _ in range(4):
        job = world.submit()
        page = world.processes[0].page.numbers
        page[CHUNK], page[RUNNING], page[SAFE] = job.number, -1, 0
        world.dispatcher.on_ended(world.dispatcher.workers.pop(0), ended_by_itself("SIGKILL"))
        assert job.outcome is not None
        assert job.outcome.next_offset == 0
        failures.append(job.outcome.failure and job.outcome.failure.offset)
        world.dispatcher.workers[0] = World(1).worker(0)
        world.processes[0] = world.worker(0).process  # type: ignore[assignment,call-overload]
    assert failures == [None, None, 0, None]
    world.submit()
    world.finish(0)


def test_a_chunk_that_is_given_up_is_withdrawn_or_ends_early() -> None:
    world = World(1)
    world.submit()
    world.finish(0)
    running, behind, waiting = world.submit(), world.submit(), world.submit()
    world.processes[0].grants = 1
    page = world.processes[0].page
    world.dispatcher.show_lease(world.worker(0))
    world.dispatcher.give_up(waiting)
    world.dispatcher.give_up(behind)
    assert world.sent() == [[running.number, None]]
    assert page.times[BEGIN_UNTIL] == 100.0
    world.dispatcher.give_up(running)
    assert page.times[BEGIN_UNTIL] == 0.0
    world.dispatcher.on_done(world.worker(0), running.number, QUICK)
    assert page.times[BEGIN_UNTIL] == 100.0
    world.skip(0, behind.number)
    assert (world.dispatcher.has_work, running.outcome) == (False, None)


def test_the_replica_hears_of_a_settled_event_after_the_outcome_that_opened_it() -> None:
    world = World(1)
    job = world.submit()
    world.finish(0, Outcome(next_offset=2, events=2, opened=(0, 1)))
    settled = (Settled(Shard("orders", 0), 0, True),)
    world.dispatcher.on_settled(world.worker(0), settled)
    assert world.dispatcher.settled == []
    world.dispatcher.seen(job)
    assert world.dispatcher.settled == [*settled]
    dead = world.dispatcher.workers.pop(0)
    world.dispatcher.on_ended(dead, None)
    assert world.dispatcher.settled == [*settled, Settled(Shard("orders", 0), 1, False)]


def test_chunks_that_wait_are_refused_when_the_pool_stops() -> None:
    world = World(0)
    job = world.submit()
    world.dispatcher.refuse_waiting()
    assert (job.done.is_set(), job.outcome, world.dispatcher.has_work) == (True, Outcome(next_offset=0), False)
