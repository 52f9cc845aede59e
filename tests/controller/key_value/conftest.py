"""The stores that the conformance suite tests; `-m etcd` selects the one that needs a server."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from etcd_server import Etcd
from key_value_worlds import HISTORY_CHANGES_MAX, RealClock, World, address_of, compact_etcd
from kubernetes_in_memory import KubernetesInMemory
from kubernetes_server import KubernetesMissingError, KubernetesServer, kubernetes
from trio.testing import MockClock

from tailrace.controller.key_value.etcd.etcd_store import EtcdStore
from tailrace.controller.key_value.interface import KeyValueStore, Put
from tailrace.controller.key_value.kubernetes.kubernetes_store import KubernetesStore
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.key_value.sqlite import open_sqlite
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, TcpNetwork


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        "kubernetes in memory",
        pytest.param("etcd", marks=pytest.mark.etcd),
        pytest.param("kubernetes", marks=pytest.mark.kubernetes),
    ]
)
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


@pytest.fixture(scope="session")
def kubernetes_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """Runs one API server for the session; tests use different names for their clusters."""
    try:
        kubernetes()
    except KubernetesMissingError as missing:
        pytest.skip(str(missing))
    with KubernetesServer(etcd, tmp_path_factory.mktemp("kubernetes")) as server:
        yield server


@pytest.fixture
def endpoint(kind: str, request: pytest.FixtureRequest) -> Address | None:
    return address_of(request.getfixturevalue("etcd")) if kind == "etcd" else None


@pytest.fixture
def clock(kind: str) -> trio.abc.Clock:
    if kind == "kubernetes in memory":
        return MockClock(autojump_threshold=0)
    return RealClock() if kind in ("etcd", "kubernetes") else MockClock()


@pytest.fixture
async def world(
    kind: str, endpoint: Address | None, tmp_path: Path, request: pytest.FixtureRequest, nursery: trio.Nursery
) -> AsyncIterator[World]:
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
    elif kind.startswith("kubernetes"):
        if kind == "kubernetes":
            server: KubernetesServer = request.getfixturevalue("kubernetes_server")
            api = server.api
        else:
            in_memory = KubernetesInMemory()
            await nursery.start(in_memory.run)
            api = in_memory.api
        cluster = f"test-{uuid4().hex}"
        opened += [
            KubernetesStore(
                api(),
                RandomChance(),
                cluster=cluster,
                history_changes_max=HISTORY_CHANGES_MAX,
                snapshot_transactions=100,
            )
            for _ in range(4)
        ]
        others = itertools.cycle(opened[1:])
        # A lease is observed by a process that lives on, so the other SCs are always the same ones.
        world = World(opened[0], lambda: next(others), write_much)
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
    nursery.cancel_scope.cancel()
