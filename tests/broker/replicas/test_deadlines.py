import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise

import pytest
import trio
import trio.testing

from tailrace.broker.replicas.deadlines import EXPIRED_PER_TURN, SECONDS_PER_TURN, Deadlines, Timer

pytestmark = pytest.mark.trio


class _Waiter:
    def __init__(self) -> None:
        self.done = False
        self.called_at: float | None = None

    def on_deadline(self) -> None:
        assert self.called_at is None
        self.called_at = trio.current_time()


@asynccontextmanager
async def _running() -> AsyncIterator[Deadlines]:
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        yield deadlines
        nursery.cancel_scope.cancel()


async def test_each_waiter_is_called_at_its_deadline(autojump_clock: trio.testing.MockClock) -> None:
    async with _running() as deadlines:
        start = trio.current_time()
        waiters = {delay: _Waiter() for delay in (30, 10, 20, 0, 10.5)}
        for delay, waiter in waiters.items():
            deadlines.add(start + delay, waiter)
        await trio.sleep(60)
        for delay, waiter in waiters.items():
            assert waiter.called_at == pytest.approx(start + delay)
        assert len(deadlines) == 0


async def test_an_earlier_deadline_shortens_the_sleep(autojump_clock: trio.testing.MockClock) -> None:
    async with _running() as deadlines:
        start = trio.current_time()
        late, early = _Waiter(), _Waiter()
        deadlines.add(start + 100, late)
        await trio.sleep(1)
        deadlines.add(start + 2, early)
        await trio.sleep(2)
        assert early.called_at == pytest.approx(start + 2)
        assert late.called_at is None


async def test_others_get_their_turns_where_thousands_have_the_same_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    waiters = [_Waiter() for _ in range(10 * EXPIRED_PER_TURN)]
    called = [0]
    async with _running() as deadlines:
        for waiter in waiters:
            deadlines.add(trio.current_time() + 1, waiter)
        await trio.sleep(1)
        for _ in range(100):
            await trio.lowlevel.checkpoint()
            called.append(sum(waiter.called_at is not None for waiter in waiters))
    assert called[-1] == len(waiters)
    assert max(after - before for before, after in pairwise(called)) <= 2 * EXPIRED_PER_TURN


async def test_others_get_their_turns_where_each_call_takes_long(mock_clock: trio.testing.MockClock) -> None:
    log: list[str] = []

    class Slow(_Waiter):
        def on_deadline(self) -> None:
            log.append("slow")
            mock_clock.jump(2 * SECONDS_PER_TURN)

    async with _running() as deadlines:
        for _ in range(9):
            deadlines.add(-math.inf, Slow())
        while log.count("slow") < 9:
            log.append("another")
            await trio.lowlevel.checkpoint()
    assert "slow slow slow" not in " ".join(log), "Trio may call two tasks in another order in each round"


async def test_whoever_was_answered_is_not_called(autojump_clock: trio.testing.MockClock) -> None:
    async with _running() as deadlines:
        waiter = _Waiter()
        deadlines.add(trio.current_time() + 1, waiter)
        waiter.done = True
        await trio.sleep(2)
        assert waiter.called_at is None
        assert len(deadlines) == 0


async def test_a_timer_that_was_called_off_does_not_fire(autojump_clock: trio.testing.MockClock) -> None:
    async with _running() as deadlines:
        fired: list[str] = []
        deadline = trio.current_time() + 1
        kept, called_off = (Timer(deadline, partial(fired.append, name)) for name in ("kept", "called off"))
        for timer in (kept, called_off):
            deadlines.add(deadline, timer)
        called_off.on_expired = None
        assert called_off.done and not kept.done
        await trio.sleep(2)
        assert fired == ["kept"]


async def test_a_deadline_set_before_the_sweeper_ran_counts(autojump_clock: trio.testing.MockClock) -> None:
    deadlines = Deadlines()
    waiter = _Waiter()
    deadlines.add(trio.current_time() - 1, waiter)
    with trio.move_on_after(1):
        await deadlines.run()
    assert waiter.called_at is not None


async def test_a_waiter_may_wait_again(autojump_clock: trio.testing.MockClock) -> None:
    calls: list[float] = []
    async with _running() as deadlines:

        class Again(_Waiter):
            def on_deadline(self) -> None:
                calls.append(trio.current_time())
                if len(calls) < 3:
                    deadlines.add(trio.current_time() + 1, self)

        deadlines.add(trio.current_time() + 1, Again())
        await trio.sleep(10)
    assert len(calls) == 3


async def test_waiters_that_are_done_do_not_pile_up() -> None:
    """Fetches of a consumer that end early must not be remembered until their deadlines."""
    deadlines = Deadlines()
    kept = _Waiter()
    deadlines.add(trio.current_time() + 5, kept)
    for _ in range(100_000):
        waiter = _Waiter()
        deadlines.add(trio.current_time() + 3600, waiter)
        waiter.done = True
    assert len(deadlines) < 5000


async def test_a_waiter_that_is_added_again_at_once_delays_no_other() -> None:
    async with _running() as deadlines:

        class Restless(_Waiter):
            def on_deadline(self) -> None:
                deadlines.add(-math.inf, self)

        deadlines.add(trio.current_time(), Restless())
        patient = _Waiter()
        deadlines.add(trio.current_time(), patient)
        while patient.called_at is None:
            await trio.lowlevel.checkpoint()
