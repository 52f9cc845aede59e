import errno

import pytest
import trio
import trio.testing
from simulation.network import MemoryConnection, MemoryNetwork

from tailrace.controller.connections.process_exits import wait_until_all_refuse
from tailrace.runtime.network import Address

PUBLIC, PRIVATE = Address("spu", 9005), Address("spu", 9006)
BOTH = (PUBLIC, PRIVATE)


class _SilentNetwork(MemoryNetwork):
    async def connect(self, address: Address) -> MemoryConnection:
        raise OSError(errno.EHOSTUNREACH, "no route to host")


async def test_nobody_listens_where_everything_is_refused() -> None:
    assert await wait_until_all_refuse(MemoryNetwork(), BOTH, lambda: True)


async def test_whoever_is_not_reached_may_be_there() -> None:
    assert not await wait_until_all_refuse(_SilentNetwork(), BOTH, lambda: True)


@pytest.mark.parametrize("address", BOTH)
async def test_one_address_is_enough_to_be_there(address: Address, autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    listener = await network.listen(address)
    with trio.move_on_after(10) as asking:
        await wait_until_all_refuse(network, BOTH, lambda: True)
    assert asking.cancelled_caught
    listener.close()
    assert await wait_until_all_refuse(network, BOTH, lambda: True)


async def test_who_ends_while_it_is_looked_for_is_gone(autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    listeners = [await network.listen(address) for address in BOTH]
    found: list[bool] = []

    async def look() -> None:
        found.append(await wait_until_all_refuse(network, BOTH, lambda: True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        for listener in listeners:
            await trio.sleep(1)
            assert not found
            listener.close()
    assert found == [True]


@pytest.mark.parametrize("listens_on", [True, False])
async def test_it_is_looked_for_only_as_long_as_somebody_wants_to_know(
    listens_on: bool, autojump_clock: trio.testing.MockClock
) -> None:
    network = MemoryNetwork()
    listener = await network.listen(PUBLIC)
    wants = [True]

    async def end() -> None:
        connection = await listener.accept()
        await trio.sleep(1)
        wants.clear()
        if not listens_on:
            listener.close()
        connection.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        with trio.fail_after(10):
            assert not await wait_until_all_refuse(network, BOTH, lambda: bool(wants))
    assert trio.current_time() < 2
