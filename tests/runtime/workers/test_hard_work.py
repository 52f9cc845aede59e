import threading

import pytest
import trio

from tailrace.runtime.workers.hard_work import DirectWorker, HardWorker, ThreadWorker


@pytest.mark.parametrize("worker", [ThreadWorker, DirectWorker])
async def test_the_result_of_a_computation_is_returned(worker: type[HardWorker]) -> None:
    assert await worker().run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await worker().run(lambda: 1 // 0)


async def test_a_thread_computes_beside_the_loop() -> None:
    assert await ThreadWorker().run(threading.get_ident) != threading.get_ident()
    assert await DirectWorker().run(threading.get_ident) == threading.get_ident()


async def test_a_computation_that_waits_for_others_may_be_abandoned() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        may_end.wait(60)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ThreadWorker(may_be_abandoned=True).run, wait)
        await trio.to_thread.run_sync(begun.wait, 60)
        nursery.cancel_scope.cancel()
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)
