import itertools
import os

import pytest
import trio

from tailrace.runtime import direct_wait
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, TcpNetwork
from tailrace.runtime.seams import real_seams
from tailrace.runtime.wall_clock import SystemClock


def test_production_has_the_real_ones() -> None:
    seams = real_seams(send_buffer_bytes=128 * 1024)
    assert isinstance(seams.network, TcpNetwork)
    assert isinstance(seams.files, RealFiles)
    assert isinstance(seams.wall_clock, SystemClock)
    assert isinstance(seams.chance, RandomChance)


@pytest.mark.parametrize("waits_awake", [True, False])
async def test_it_busy_waits_for_the_next_event_if_that_is_on(
    waits_awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    yields = 0
    left = 20
    buffer = memoryview(bytearray(100))

    def give_the_core() -> None:
        nonlocal yields
        yields += 1
        client.send([b"x"])

    def answer() -> bool:
        """The next question comes with the answer to this one, but the last."""
        nonlocal left
        server.receive_into(buffer)
        left -= 1
        if left > 1:
            client.send([b"x"])
        return left > 0

    async def ask_last() -> None:
        await trio.sleep(0.05)
        client.send([b"x"])

    moments = itertools.count()
    monkeypatch.setattr(direct_wait, "perf_counter", lambda: next(moments) / 1_000_000)
    monkeypatch.setattr(direct_wait, "usable_cores", lambda: 2)
    monkeypatch.setattr(os, "sched_yield", give_the_core)
    network = real_seams(send_buffer_bytes=-1, waits_awake=waits_awake).network
    listener = await network.listen(Address("127.0.0.1", 0))
    client = await network.connect(listener.address)
    server = await listener.accept()
    client.send([b"x"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_last)
        await server.call_when_readable(answer)
    for connection in (client, server):
        connection.close()
    listener.close()
    assert (yields > 0) is waits_awake
