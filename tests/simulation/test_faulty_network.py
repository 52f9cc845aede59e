"""The simulated network behaves like TCP as far as programs can tell, also when it fails."""

import errno
from random import Random

import pytest
import trio
from simulation.faulty_network import Internet, ProcessNetwork, SimulatedConnection
from simulation.virtual_clock import VirtualClock

from tailrace.runtime.network import Address, CannotListenError

SERVER = Address("b", 1)


class _Pair:
    """A client on host a that is connected to a server on host b."""

    def __init__(self) -> None:
        self.internet = Internet(Random(0), buffer_bytes=1000)
        self.client_process = self.internet.process_on("a")
        self.server_process = self.internet.process_on("b")

    async def connect(self) -> tuple[SimulatedConnection, SimulatedConnection]:
        listener = await self.server_process.listen(SERVER)
        client = await self.client_process.connect(SERVER)
        return client, await listener.accept()


async def _received(connection: SimulatedConnection) -> bytes:
    """Returns the next bytes, or b"" at the end of the stream."""
    buffer = memoryview(bytearray(100))
    while True:
        await connection.wait_readable()
        count = connection.receive_into(buffer)
        if count is not None:
            return bytes(buffer[:count])


async def _received_all(connection: SimulatedConnection) -> bytes:
    data = b""
    while part := await _received(connection):
        data += part
    return data


async def test_bytes_arrive_late_and_in_order(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    client, server = await pair.connect()
    pair.internet.link("a", "b").delay_seconds = 2.0
    began = trio.current_time()
    client.send([b"one"])
    pair.internet.link("a", "b").delay_seconds = 0.0
    client.send([b"two"])
    client.close()
    assert await _received_all(server) == b"onetwo"
    assert trio.current_time() - began >= 2.0


async def test_a_blocked_link_delivers_when_it_works_again(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    client, server = await pair.connect()
    client.send([b"before"])
    pair.internet.block("a", "b")
    client.send([b", meanwhile"])
    server.send([b"the other way"])
    assert await _received(client) == b"the other way"
    with trio.move_on_after(60) as waiting:
        await _received(server)
    assert waiting.cancelled_caught
    pair.internet.unblock("a", "b")
    client.close()
    assert await _received_all(server) == b"before, meanwhile"


@pytest.mark.parametrize("is_blocked", [False, True])
async def test_a_stalled_connection_delivers_later_also_after_its_process_was_killed(
    virtual_clock: VirtualClock, is_blocked: bool
) -> None:
    pair = _Pair()
    client, server = await pair.connect()
    client.send([b"before"])
    client.stall()
    client.send([b", meanwhile"])
    server.send([b"the other way"])
    assert await _received(client) == b"the other way"
    if is_blocked:
        pair.internet.block("a", "b")
        pair.internet.unblock("a", "b")
    with trio.move_on_after(60) as waiting:
        await _received(server)
    assert waiting.cancelled_caught
    pair.client_process.die()
    client.resume()
    assert await _received_all(server) == b"before, meanwhile"


async def test_a_full_connection_takes_nothing_until_it_is_read(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    client, server = await pair.connect()
    assert client.send([bytes(600), bytes(600)]) == 1000
    assert client.send([b"x"]) == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.wait_writable)
        await _received(server)
    assert client.send([bytes(600)]) == 100


async def test_a_killed_process_ends_its_connections_and_accepts_no_more(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    client, server = await pair.connect()
    server.send([b"last words"])
    pair.server_process.die()
    assert await _received_all(client) == b"last words"
    client.send([b"anybody there?"])
    with pytest.raises(ConnectionResetError):
        await _until_refused(client)
    with pytest.raises(ConnectionRefusedError):
        await pair.client_process.connect(SERVER)
    with pytest.raises(OSError, match="dead"):
        await pair.server_process.listen(SERVER)


async def _until_refused(connection: SimulatedConnection) -> None:
    while True:
        connection.send([b"x"])
        await trio.sleep(0.1)


async def test_a_machine_without_power_says_nothing_until_it_is_back(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    client, _ = await pair.connect()
    pair.internet.switch_off("b", pair.server_process)
    client.send([b"x"])
    with trio.move_on_after(60) as waiting:
        await client.wait_readable()
    assert waiting.cancelled_caught
    with pytest.raises(OSError) as caught:
        await pair.client_process.connect(SERVER)
    assert caught.value.errno == errno.ETIMEDOUT
    pair.internet.switch_on("b")
    with pytest.raises(ConnectionResetError):
        await _received(client)


async def test_connecting_waits_for_a_blocked_link(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    await pair.server_process.listen(SERVER)
    pair.internet.block("b", "a")
    connected: list[float] = []

    async def connect(network: ProcessNetwork) -> None:
        await network.connect(SERVER)
        connected.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect, pair.client_process)
        await trio.sleep(5)
        assert not connected
        pair.internet.unblock("b", "a")
    assert 5 < connected[0] < 6


async def test_an_address_has_one_listener(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    await pair.server_process.listen(SERVER)
    with pytest.raises(CannotListenError):
        await pair.internet.process_on("b").listen(SERVER)


async def test_a_reset_connection_is_broken_on_both_sides(virtual_clock: VirtualClock) -> None:
    pair = _Pair()
    client, server = await pair.connect()
    client.send([b"lost"])
    client.reset()
    for side in (client, server):
        with pytest.raises(ConnectionResetError):
            await _received(side)
