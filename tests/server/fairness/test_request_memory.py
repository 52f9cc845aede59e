import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from msgspec import Struct

from tailrace.server.fairness.request_memory import REQUEST_SECONDS_MAX, SMALL_BYTES, STALLED_SECONDS_MAX, RequestMemory

pytestmark = pytest.mark.trio

LARGE = SMALL_BYTES + 1
LIMIT = 10 * LARGE


class _Client(Struct, eq=False):
    memory: RequestMemory
    stalled_since: float = math.inf
    arrived_bytes: int = 0
    reason: str = ""

    def close(self, reason: str) -> None:
        self.reason = reason
        self.memory.release(self)


def _memory() -> tuple[RequestMemory, dict[str, _Client]]:
    memory = RequestMemory(LIMIT)
    return memory, {name: _Client(memory) for name in ("first", "second", "third", "large", "small", "nobody")}


@asynccontextmanager
async def _waiting_for(memory: RequestMemory, owner: _Client, count: int) -> AsyncIterator[trio.Event]:
    """Reserves memory, and sets the event when that is done."""
    reserved = trio.Event()

    async def reserve() -> None:
        await memory.reserve(owner, count)
        reserved.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reserve)
        await trio.testing.wait_all_tasks_blocked()
        yield reserved
        nursery.cancel_scope.cancel()


async def test_small_requests_never_wait() -> None:
    memory, clients = _memory()
    await memory.reserve(clients["large"], LIMIT)
    with trio.fail_after(0):
        await memory.reserve(clients["small"], SMALL_BYTES)
    assert memory.reserved_bytes == LIMIT


async def test_a_large_request_waits_until_others_are_done() -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT)
    async with _waiting_for(memory, clients["second"], LARGE) as reserved:
        assert not reserved.is_set()
        memory.release(clients["first"])
        await trio.testing.wait_all_tasks_blocked()
        assert reserved.is_set()
    assert memory.reserved_bytes == LARGE


async def test_the_last_reservation_may_exceed_the_limit() -> None:
    """Otherwise a request of the largest allowed size could wait forever."""
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT - 1)
    await memory.reserve(clients["second"], 3 * LIMIT)
    assert memory.reserved_bytes == 4 * LIMIT - 1


async def test_the_same_request_is_reserved_once() -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT)
    await memory.reserve(clients["first"], LIMIT)
    assert memory.reserved_bytes == LIMIT


async def test_a_small_request_gives_back_what_the_large_one_before_it_held() -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT)
    await memory.reserve(clients["first"], 4)
    assert memory.reserved_bytes == 0


async def test_a_smaller_request_gives_back_the_difference_without_waiting() -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT - 1)
    await memory.reserve(clients["second"], LIMIT)
    async with _waiting_for(memory, clients["third"], LARGE) as reserved:
        await memory.reserve(clients["second"], LARGE)
        assert memory.reserved_bytes == LIMIT - 1 + LARGE
        assert not reserved.is_set()
        await memory.reserve(clients["first"], LARGE)
        await trio.testing.wait_all_tasks_blocked()
        assert reserved.is_set()


async def test_a_request_may_keep_only_what_has_arrived() -> None:
    memory, clients = _memory()
    first = clients["first"]
    memory.keep_arrived(first)
    assert memory.reserved_bytes == 0
    await memory.reserve(first, LIMIT)
    first.arrived_bytes = LARGE
    async with _waiting_for(memory, clients["second"], LARGE) as reserved:
        assert not reserved.is_set()
        memory.keep_arrived(first)
        await reserved.wait()
        assert memory.reserved_bytes == 2 * LARGE
    memory.keep_arrived(first)
    assert memory.reserved_bytes == 2 * LARGE
    first.arrived_bytes = SMALL_BYTES
    memory.keep_arrived(first)
    assert memory.reserved_bytes == LARGE


async def test_releasing_nothing_is_no_error() -> None:
    memory, clients = _memory()
    memory.release(clients["nobody"])
    assert memory.reserved_bytes == 0


@pytest.mark.parametrize("seed", range(5))
async def test_a_request_that_has_begun_can_be_finished(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    """Requests of any sizes on many connections, without pauses: none gets stuck."""
    memory = RequestMemory(LIMIT)
    chance = random.Random(seed)
    over = 0

    async def connection(client: _Client) -> None:
        nonlocal over
        for _ in range(20):
            await memory.reserve(client, chance.choice((10, LARGE, 2 * LARGE, LIMIT // 2, LIMIT, 2 * LIMIT)))
            over = max(over, memory.reserved_bytes)
            await trio.sleep(chance.random())
        memory.release(client)

    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(connection, _Client(memory))
    assert memory.reserved_bytes == 0
    assert LIMIT < over < LIMIT + 2 * LIMIT


async def test_a_stalled_client_is_closed_when_others_wait(autojump_clock: trio.testing.MockClock) -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT)
    clients["first"].stalled_since = trio.current_time()
    await trio.sleep(3600)
    assert not clients["first"].reason, "nobody waits"
    await memory.reserve(clients["second"], LIMIT)
    assert "did not arrive in time" in clients["first"].reason
    assert memory.reserved_bytes == LIMIT


async def _waits(memory: RequestMemory, client: _Client, slow: _Client, bytes_per_second: float) -> float:
    """Lets one client wait while another sends its request slowly. Returns how long the first one has waited."""
    began = trio.current_time()

    async def send() -> None:
        while slow.arrived_bytes < LIMIT and not slow.reason:
            await trio.sleep(1)
            slow.arrived_bytes += int(bytes_per_second)
            slow.stalled_since = trio.current_time()
            assert slow.reason or memory.has_reserved(slow, LIMIT)
        memory.release(slow)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await memory.reserve(client, LIMIT)
        return trio.current_time() - began


async def test_a_client_that_trickles_is_closed_when_others_wait(autojump_clock: trio.testing.MockClock) -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT)
    waited = await _waits(memory, clients["second"], clients["first"], 1)
    assert "did not arrive in time" in clients["first"].reason
    assert waited == STALLED_SECONDS_MAX


async def test_a_client_that_sends_fast_enough_may_go_on(autojump_clock: trio.testing.MockClock) -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT)
    waited = await _waits(memory, clients["second"], clients["first"], LIMIT / (REQUEST_SECONDS_MAX - 15))
    assert not clients["first"].reason
    assert STALLED_SECONDS_MAX < waited < REQUEST_SECONDS_MAX


async def test_each_request_of_a_client_has_its_own_time(autojump_clock: trio.testing.MockClock) -> None:
    memory, clients = _memory()
    first = clients["first"]
    await memory.reserve(first, LIMIT)
    await trio.sleep(3600)
    first.arrived_bytes = LIMIT - 1
    assert memory.has_reserved(first, LIMIT)
    first.arrived_bytes = 10  # the next one, of the same size
    assert memory.has_reserved(first, LIMIT)
    await _waits(memory, clients["second"], first, LIMIT / (REQUEST_SECONDS_MAX - 15))
    assert not first.reason


async def test_a_client_that_goes_on_or_one_that_waits_for_us_stays(autojump_clock: trio.testing.MockClock) -> None:
    memory, clients = _memory()
    await memory.reserve(clients["first"], LIMIT - 1)
    await memory.reserve(clients["second"], LIMIT)
    async with _waiting_for(memory, clients["third"], LARGE) as reserved:
        for _ in range(20):
            clients["first"].stalled_since = trio.current_time()
            clients["first"].arrived_bytes += LIMIT // 10
            await trio.sleep(STALLED_SECONDS_MAX / 2)
        assert not reserved.is_set()
    assert not clients["first"].reason and not clients["second"].reason
