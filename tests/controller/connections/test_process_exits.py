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


async def test_a_process_has_ended_if_all_addresses_refuse() -> None:
    assert await wait_until_all_refuse(MemoryNetwork(), BOTH, lambda: True)


async def test_an_unreachable_process_may_be_alive() -> None:
    assert not await wait_until_all_refuse(_SilentNetwork(), BOTH, lambda: True)


@pytest.mark.parametrize("address", BOTH)
async def test_one_accepting_address_means_alive(address: Address, autojump_clock: trio.testing.MockClock) -> None:
    network = MemoryNetwork()
    listener = await network.listen(address)
    with trio.move_on_after(10) as asking:
        await wait_until_all_refuse(network, BOTH, lambda: True)
    assert asking.cancelled_caught
    listener.close()
    assert await wait_until_all_refuse(network, BOTH, lambda: True)


async def test_a_process_that_ends_during_the_check_has_ended(autojump_clock: trio.testing.MockClock) -> None:
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
async def test_the_check_stops_when_its_result_is_not_wanted(
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
