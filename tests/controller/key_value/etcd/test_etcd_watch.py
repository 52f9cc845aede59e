"""A watch sees each change once, however its connections fail. The server is scripted."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence

import pytest
import trio
from scripted_http import STREAM_HEAD, Exchange, answer, chunk, serve
from simulation.network import MemoryNetwork
from trio.testing import MockClock

from tailrace.controller.key_value.etcd.etcd_gateway import EtcdGateway
from tailrace.controller.key_value.etcd.etcd_login import EtcdLogin
from tailrace.controller.key_value.etcd.etcd_messages import KeySpace
from tailrace.controller.key_value.etcd.etcd_watch import SILENCE_SECONDS_MAX, EtcdWatch
from tailrace.controller.key_value.interface import EntryDeleted, EntryPut, FellBehind, WatchEvent
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address
from tailrace.security.settings.secret import Secret

ETCD = Address("etcd", 2379)
END = None


def message(revision: int, keys: Sequence[str] = (), **more: object) -> bytes:
    events = [{"kv": {"key": b64encode(b"/" + key.encode()).decode(), "mod_revision": str(revision)}} for key in keys]
    result = {"header": {"revision": str(revision)}, "events": events, **more}
    return chunk(json.dumps({"result": result}).encode() + b"\n")


def created(revision: int) -> bytes:
    return STREAM_HEAD + message(revision, created=True)


class Server:
    """Plays one script for each connection: bytes, seconds of silence, or END to close it."""

    def __init__(self, *scripts: Sequence[bytes | float | None]) -> None:
        self._scripts = list(scripts)
        self.starts: list[int] = []

    async def __call__(self, exchange: Exchange) -> None:
        request = json.loads(exchange.body)["create_request"]
        self.starts.append(int(request["start_revision"]))
        for part in self._scripts.pop(0):
            if part is END:
                exchange.connection.close()
                return
            if isinstance(part, bytes):
                await exchange.send(part)
            else:
                await trio.sleep(part)
        await trio.sleep_forever()


@pytest.fixture
async def network(nursery: trio.Nursery) -> AsyncIterator[MemoryNetwork]:
    yield MemoryNetwork()
    nursery.cancel_scope.cancel()


async def watch(network: MemoryNetwork, nursery: trio.Nursery, server: Server, after_revision: int = 10) -> EtcdWatch:
    await nursery.start(serve, network, ETCD, server)
    return EtcdWatch(EtcdGateway(network, [ETCD]), RandomChance(1), KeySpace(b"/"), "", after_revision)


async def versions(watch: EtcdWatch, count: int) -> list[tuple[str, int]]:
    found = [await anext(watch) for _ in range(count)]
    return [(event.entry.key, event.entry.version) for event in found if isinstance(event, EntryPut)]


async def test_a_watch_continues_after_the_last_complete_revision(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = Server(
        [created(10), message(11, "ab"), message(13, "c"), END],
        [END],
        [created(13)[:-5], END],
        [created(13), message(14, "d")],
    )
    followed = await watch(network, nursery, server)
    assert await versions(followed, 4) == [("a", 11), ("b", 11), ("c", 13), ("d", 14)]
    assert server.starts == [11, 14, 14, 14]


async def test_an_incomplete_revision_is_not_reported(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = Server(
        [created(10), message(11, "a", fragment=True), END],
        [created(11), message(11, "a", fragment=True), message(11, "b", fragment=True), message(11, "c")],
    )
    followed = await watch(network, nursery, server)
    assert await versions(followed, 3) == [("a", 11), ("b", 11), ("c", 11)]
    assert server.starts == [11, 11]


async def test_a_connection_with_no_news_is_made_anew(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The other end may have vanished, which looks the same as no events."""
    server = Server([created(10), message(11, "a")], [created(11)], [created(12), message(12, "b")])
    followed = await watch(network, nursery, server)
    assert await versions(followed, 2) == [("a", 11), ("b", 12)]
    assert server.starts == [11, 12, 12]
    assert trio.current_time() == 2 * SILENCE_SECONDS_MAX


async def test_a_cancelled_wait_loses_no_event(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    line = message(12, "b")
    server = Server([created(10), message(11, "a")[:40], 5, message(11, "a")[40:] + line[:20]], [created(11), line])
    followed = await watch(network, nursery, server)
    found: list[WatchEvent] = []
    while len(found) < 2:
        with trio.move_on_after(1.1):
            found.append(await anext(followed))
        assert trio.current_time() < 5 + SILENCE_SECONDS_MAX + 2, "the silence counts from the last news"
    assert [event.entry.key for event in found if isinstance(event, EntryPut)] == ["a", "b"]
    assert server.starts == [11, 12]


async def test_deletions_are_told(network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    event = {"type": "DELETE", "kv": {"key": b64encode(b"/a").decode(), "mod_revision": "12"}}
    followed = await watch(network, nursery, Server([created(12), message(12, events=[event])]))
    assert await anext(followed) == EntryDeleted("a", 12)


@pytest.mark.parametrize("reason", [message(20, canceled=True, compact_revision="15"), message(9, created=True)])
async def test_a_missing_part_of_the_history_is_an_error(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock, reason: bytes
) -> None:
    """The changes were compacted away, or the server was restored from an older copy."""
    followed = await watch(network, nursery, Server([STREAM_HEAD + reason]))
    with pytest.raises(FellBehind, match="after revision 10"):
        await anext(followed)


async def test_a_watch_that_etcd_cancels_is_asked_for_again(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = Server(
        [created(10), message(10, canceled=True, cancel_reason="etcdserver: no leader")],
        [created(10), message(11, "a")],
    )
    assert await versions(await watch(network, nursery, server), 1) == [("a", 11)]


async def test_a_watch_that_etcd_cancels_for_its_token_logs_in_again(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = Server(
        [created(10), message(10, canceled=True, cancel_reason="etcdserver: invalid auth token")],
        [created(10), message(11, "a")],
    )
    tokens: list[str] = []
    carried: list[str | None] = []

    async def demand_login(exchange: Exchange) -> None:
        if exchange.path == "/v3/auth/authenticate":
            tokens.append(f"token-{len(tokens)}")
            await exchange.send(answer({"header": {}, "token": tokens[-1]}))
        else:
            carried.append(exchange.headers.get("authorization"))
            await server(exchange)

    await nursery.start(serve, network, ETCD, demand_login)
    gateway = EtcdGateway(network, [ETCD], login=EtcdLogin("sc", Secret("opensesame")))
    followed = EtcdWatch(gateway, RandomChance(1), KeySpace(b"/"), "", 10)
    assert await versions(followed, 1) == [("a", 11)]
    assert carried == ["token-0", "token-1"]


async def test_a_server_that_ends_every_connection_is_left_in_peace(
    network: MemoryNetwork, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    server = Server(*([[END]] * 1000))
    followed = await watch(network, nursery, server)
    with trio.move_on_after(60):
        await anext(followed)
    assert 20 < len(server.starts) < 80
