"""The memory store outlives the SCs that use it. The conformance suite tests everything else."""

import trio
from trio.testing import MockClock

from tailrace.controller.key_value.interface import NO_VERSION, Put
from tailrace.controller.key_value.memory import MemoryStore


async def test_a_crash_of_an_sc_leaves_its_lease_to_run_out(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    with trio.CancelScope() as scope:
        leader = await store.take("leader", b"one", 5)
        scope.cancel()
        await store.write([Put("a", b"", NO_VERSION)], leader)
    assert await store.get("a") is None
    assert await store.take("leader", b"two", 5) is None
    await trio.sleep(5)
    assert await store.take("leader", b"two", 5) is not None


async def test_a_value_is_its_own_copy() -> None:
    store, value = MemoryStore(), bytearray(b"1")
    await store.write([Put("a", value, NO_VERSION)])  # type: ignore[arg-type] # a buffer passes for bytes easily
    value[:] = b"2"
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == b"1"
