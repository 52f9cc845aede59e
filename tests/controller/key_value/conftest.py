"""The stores that the conformance suite tests; `-m etcd` selects the one that needs a server."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
from etcd_server import Etcd
from key_value_worlds import HISTORY_CHANGES_MAX, RealClock, World, address_of, compact_etcd
from trio.testing import MockClock

from tailrace.controller.key_value.etcd.etcd_store import EtcdStore
from tailrace.controller.key_value.interface import KeyValueStore, Put
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.key_value.sqlite import open_sqlite
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, TcpNetwork


@pytest.fixture(params=["memory", "sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Runs one server for the session; tests use different prefixes for their keys."""
    server = Etcd(tmp_path_factory.mktemp("etcd"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def endpoint(kind: str, request: pytest.FixtureRequest) -> Address | None:
    return address_of(request.getfixturevalue("etcd")) if kind == "etcd" else None


@pytest.fixture
def clock(kind: str) -> trio.abc.Clock:
    return RealClock() if kind == "etcd" else MockClock()


@pytest.fixture
async def world(kind: str, endpoint: Address | None, tmp_path: Path) -> AsyncIterator[World]:
    opened: list[KeyValueStore] = []

    def open_etcd() -> KeyValueStore:
        assert endpoint is not None
        opened.append(EtcdStore(TcpNetwork(), RandomChance(), [endpoint], prefix=f"{tmp_path}/"))
        return opened[-1]

    async def write_much() -> None:
        """Writes more changes than the history of a store within this process keeps."""
        await opened[0].write([Put(f"elsewhere/{number}", b"", 0) for number in range(HISTORY_CHANGES_MAX + 1)])

    async def compact() -> None:
        assert endpoint is not None
        listing = await opened[0].list("")
        await trio.to_thread.run_sync(compact_etcd, endpoint, listing.revision)

    if kind == "etcd":
        world = World(open_etcd(), open_etcd, compact)
    else:
        store: KeyValueStore
        if kind == "memory":
            store = MemoryStore(HISTORY_CHANGES_MAX)
        else:
            store = await open_sqlite(str(tmp_path / "store.sqlite"), HISTORY_CHANGES_MAX)
        opened.append(store)
        world = World(store, lambda: store, write_much)
    yield world
    for each in opened:
        await each.close()
