import threading

import pytest

from tailrace.runtime.workers.hard_work import DirectWorker, HardWorker, ThreadWorker


@pytest.mark.parametrize("worker", [ThreadWorker, DirectWorker])
async def test_the_result_of_a_computation_is_returned(worker: type[HardWorker]) -> None:
    assert await worker().run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await worker().run(lambda: 1 // 0)


async def test_a_thread_computes_beside_the_loop() -> None:
    assert await ThreadWorker().run(threading.get_ident) != threading.get_ident()
    assert await DirectWorker().run(threading.get_ident) == threading.get_ident()
