"""Failures that only a store with a server has: it is down, restarts, hangs, or serves others as well."""

import base64
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
import trio
from etcd_server import Etcd
from key_value_worlds import address_of, compact_etcd

from tailrace.controller.key_value.etcd.etcd_store import EtcdStore
from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Entry,
    EntryPut,
    FellBehind,
    LeadershipLost,
    Put,
    StoreCorrupt,
    StoreUnavailable,
    WatchEvent,
)
from tailrace.controller.workflow.leadership import LEADER_KEY, lead
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.network import Address, TcpNetwork

pytestmark = pytest.mark.etcd


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Etcd]:
    """Runs a server for one test."""
    server = Etcd(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def store(server: Etcd) -> AsyncIterator[EtcdStore]:
    store = store_at(address_of(server))
    yield store
    await store.close()


def store_at(*endpoints: Address, prefix: str = "/tailrace/", call_seconds_max: float = 5) -> EtcdStore:
    return EtcdStore(TcpNetwork(), RandomChance(), endpoints, prefix=prefix, call_seconds_max=call_seconds_max)


async def put(store: EtcdStore, key: str, value: bytes = b"", version: int = NO_VERSION) -> Entry:
    (written,) = await store.write([Put(key, value, version)])
    assert written is not None
    return Entry(key, value, written)


async def put_when_it_answers(store: EtcdStore, key: str) -> Entry:
    with trio.fail_after(30):
        while True:
            try:
                return await put(store, key)
            except StoreUnavailable:
                await trio.sleep(0.05)


async def test_a_server_that_is_away_is_unavailable_until_it_is_back(server: Etcd, store: EtcdStore) -> None:
    entry = await put(store, "a")
    server.kill()
    with pytest.raises(StoreUnavailable, match=f"etcd.*{server.endpoint}"):
        await store.get("a")
    with pytest.raises(StoreUnavailable, match=f"etcd cannot be reached: .*{server.endpoint}: Connection refused"):
        await store.get("a")
    server.start()
    assert await store.get("a") == entry  # What was written is durable.


async def test_a_watch_goes_on_after_a_restart_without_a_gap(server: Etcd, store: EtcdStore) -> None:
    start = (await store.list("")).revision
    told: list[WatchEvent] = []
    first_told = trio.Event()
    written = [await put(store, "first")]

    async def follow() -> None:
        async with store.watch("", start) as watch:
            while len(told) < 4:
                told.append(await anext(watch))
                first_told.set()

    with trio.fail_after(40):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await first_told.wait()
            for restart in range(2):
                server.kill()
                server.start()
                written.append(await put_when_it_answers(store, f"after/{restart}"))
            written.append(await put(store, "last"))
    assert told == [EntryPut(entry) for entry in written]


async def test_a_watch_that_missed_a_compaction_while_away_fell_behind(server: Etcd, store: EtcdStore) -> None:
    start = (await store.list("")).revision
    async with store.watch("", start) as watch:
        first = await put(store, "a")
        assert await anext(watch) == EntryPut(first)
        server.kill()
        server.start()
        other = store_at(address_of(server))
        for key in "bcd":
            await put_when_it_answers(other, key)
        revision = (await other.list("")).revision
        await trio.to_thread.run_sync(compact_etcd, address_of(server), revision)
        await other.close()
        with pytest.raises(FellBehind, match=f"after revision {first.version}"), trio.fail_after(20):
            while True:
                await anext(watch)


async def test_a_server_that_hangs_costs_one_deadline(server: Etcd, store: EtcdStore) -> None:
    entry = await put(store, "a")
    impatient = store_at(address_of(server), call_seconds_max=0.3)
    server.freeze()
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"has not responded in 0\.3 s"):
                await impatient.get("a")
    finally:
        server.thaw()
    with trio.fail_after(20):
        found = None
        while found is None:
            try:
                found = await impatient.get("a")
            except StoreUnavailable:
                await trio.sleep(0.05)
    assert found == entry
    await impatient.close()


async def test_one_endpoint_of_several_is_enough(server: Etcd) -> None:
    nobody = Address("127.0.0.1", 1)
    store = store_at(nobody, address_of(server), nobody)
    entry = await put(store, "a")
    async with store.watch("", entry.version - 1) as watch:
        assert await anext(watch) == EntryPut(entry)
    await store.close()


async def test_clusters_in_one_etcd_do_not_see_each_other(server: Etcd) -> None:
    one, two = store_at(address_of(server), prefix="/one/"), store_at(address_of(server), prefix="/two/")
    entry = await put(one, "a", b"1")
    assert await two.get("a") is None
    assert (await two.list("")).entries == ()
    await put(two, "a", b"2")
    assert (await one.list("")).entries == (entry,)
    for store in (one, two):
        await store.close()


async def test_a_key_that_is_no_text_is_somebody_elses(server: Etcd, store: EtcdStore) -> None:
    key = base64.b64encode(b"/tailrace/\xff").decode()
    request = urllib.request.Request(f"http://{server.endpoint}/v3/kv/put", json.dumps({"key": key}).encode())
    await trio.to_thread.run_sync(lambda: urllib.request.urlopen(request).close())
    with pytest.raises(StoreCorrupt, match="which no SC has written"):
        await store.list("")


async def test_an_sc_that_stands_by_leads_when_the_other_is_gone(server: Etcd) -> None:
    one, two = store_at(address_of(server)), store_at(address_of(server))
    began: list[bytes] = []
    first_began = trio.Event()

    async def work(guard: Entry) -> None:
        began.append(guard.value)
        first_began.set()
        if guard.value == b"one":
            await one.close()  # like a crash, in which no one gives up the lease
            await trio.sleep_forever()

    async def be_first() -> None:
        with pytest.raises(LeadershipLost):
            await lead(one, "one", work, structlog.get_logger(), lease_seconds=2)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(be_first)
            await first_began.wait()
            await lead(two, "two", work, structlog.get_logger(), lease_seconds=2)
    assert began == [b"one", b"two"]
    assert await two.get(LEADER_KEY) is None
    await two.close()


async def test_leases_outlive_a_restart_of_the_server(server: Etcd, store: EtcdStore) -> None:
    entry = await store.take("leader", b"", 60)
    assert entry is not None
    server.kill()
    server.start()
    with trio.fail_after(20):
        renewed = False
        while not renewed:
            try:
                await store.renew(entry)
                renewed = True
            except StoreUnavailable:
                await trio.sleep(0.05)
    assert await store.get("leader") == entry
