from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from peers import cluster_of, identity, private_address
from simulation.client import WireClient
from simulation.network import MemoryNetwork
from structlog.testing import capture_logs

from tailrace.broker.peers.peer_acceptor import INTRODUCTIONS_AT_ONCE, INTRODUCTIONS_MAX, PeerAcceptor
from tailrace.broker.peers.peer_handshake import INTRODUCTION_SECONDS_MAX, RefusedError, introduce
from tailrace.broker.peers.peer_messages import PeerIdentity
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.runtime.network import Connection

PRIVATE = private_address(1)


@asynccontextmanager
async def _serving(used: list[PeerIdentity] | None = None) -> AsyncIterator[MemoryNetwork]:
    async def use(connection: Connection, peer: PeerIdentity) -> None:
        assert used is not None
        used.append(peer)
        await trio.sleep_forever()

    network = MemoryNetwork()
    acceptor = PeerAcceptor(identity(1), cluster_of(1, 2), use, structlog.get_logger())
    listener = await network.listen(PRIVATE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acceptor.serve, listener)
        yield network
        nursery.cancel_scope.cancel()


async def test_a_kafka_request_is_refused_and_named_in_the_log(autojump_clock: object) -> None:
    async with _serving() as network:
        client = WireClient(await network.connect(PRIVATE))
        with capture_logs() as logged:
            await client.send(client.encode(ApiKey.METADATA, 9, MetadataRequest(topics=None)))
            assert await client.at_end()
    (event,) = logged
    assert event["event"] == "private_request_refused"
    assert event["peer"] == str(client.connection.local)
    assert "METADATA version 9 belongs on a public one" in event["reason"]


async def test_anything_else_is_refused_too(autojump_clock: object) -> None:
    async with _serving() as network:
        client = WireClient(await network.connect(PRIVATE))
        with capture_logs() as logged:
            await client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert await client.at_end()
    assert [event["event"] for event in logged] == ["private_request_refused"]


@pytest.mark.parametrize("sent", [b"", b"\0"])
async def test_an_incomplete_introduction_times_out(autojump_clock: trio.testing.MockClock, sent: bytes) -> None:
    async with _serving() as network:
        client = WireClient(await network.connect(PRIVATE))
        started = trio.current_time()
        await client.send(sent)
        assert await client.at_end()
        assert trio.current_time() - started == pytest.approx(INTRODUCTION_SECONDS_MAX)


async def test_an_spu_is_refused_with_a_reason_that_is_logged_once(autojump_clock: object) -> None:
    async with _serving([]) as network:

        async def come(spu: int, cluster_id: str = "the-cluster") -> None:
            cluster = cluster_of(1, 2, 3, cluster_id=cluster_id)
            await introduce(await network.connect(PRIVATE), identity(spu), cluster, SpuId(1))

        with capture_logs() as logged:
            for _ in range(3):
                with pytest.raises(RefusedError, match="SPU 3 is not known to SPU 1"):
                    await come(3)
            with pytest.raises(RefusedError, match="another"):
                await come(2, "another")
        assert [event["event"] for event in logged] == ["private_request_refused"] * 2
        await come(2)
        with capture_logs() as logged, pytest.raises(RefusedError):
            await come(3)
        assert len(logged) == 1, "somebody was let in meanwhile"


async def test_strangers_do_not_keep_others_out_for_long(autojump_clock: object) -> None:
    used: list[PeerIdentity] = []
    async with _serving(used) as network:
        strangers = [await network.connect(PRIVATE) for _ in range(2 * INTRODUCTIONS_AT_ONCE)]
        connection = await network.connect(PRIVATE)
        await introduce(connection, identity(2), cluster_of(1, 2), SpuId(1))
        await trio.testing.wait_all_tasks_blocked()
    assert used == [identity(2)]
    assert all(stranger.peer.closed for stranger in strangers)


async def test_too_many_unintroduced_connections_are_closed(autojump_clock: object) -> None:
    async with _serving([]) as network:
        with capture_logs() as logged:
            strangers = [await network.connect(PRIVATE) for _ in range(INTRODUCTIONS_MAX + 10)]
            await trio.testing.wait_all_tasks_blocked()
        assert sum(stranger.peer.closed for stranger in strangers) == 10
        assert [event["reason"] for event in logged] == [
            f"{INTRODUCTIONS_MAX} others already wait for their introduction"
        ]


async def test_too_many_open_files_do_not_end_it(autojump_clock: object) -> None:
    async with _serving([]) as network:
        network.listeners[PRIVATE].accept_errors.append(OSError("too many open files"))
        for _ in range(2):
            connection = await network.connect(PRIVATE)
            await introduce(connection, identity(2), cluster_of(1, 2), SpuId(1))
