from tailrace.runtime.workers.shared_page import SharedPage
from tailrace.trigger.worker.worker_page import (
    BEGIN_UNTIL,
    CHUNK,
    LEASE_UNTIL,
    NONE,
    RUNNING,
    SAFE,
    STARTED,
    Doing,
    WorkerPage,
)


def test_a_new_worker_does_nothing() -> None:
    page = WorkerPage(SharedPage())
    assert page.doing() == Doing(NONE, NONE, 0, 0, 0, 0.0)


def test_the_pool_sees_what_the_worker_writes() -> None:
    shared = SharedPage()
    page = WorkerPage(shared)
    shared.numbers[CHUNK], shared.numbers[RUNNING], shared.numbers[SAFE], shared.times[STARTED] = 4, 7, 6, 2.5
    assert page.doing() == Doing(chunk=4, running=7, running_end=0, safe=6, open=0, started=2.5)


def test_a_worker_that_may_begin_nothing_keeps_its_lease() -> None:
    shared = SharedPage()
    page = WorkerPage(shared)
    page.set_lease(5.0, may_begin=False)
    assert (shared.times[LEASE_UNTIL], shared.times[BEGIN_UNTIL]) == (5.0, 0.0)
    page.set_lease(6.0, may_begin=True)
    assert (shared.times[LEASE_UNTIL], shared.times[BEGIN_UNTIL]) == (6.0, 6.0)
