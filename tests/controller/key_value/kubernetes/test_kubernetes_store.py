"""What is special about the store in Kubernetes: lost responses, snapshots, old and removed objects."""

from collections.abc import AsyncIterator

import pytest
import trio
from kubernetes_in_memory import KubernetesInMemory
from trio.testing import MockClock

from tailrace.controller.key_value.interface import (
    NO_VERSION,
    Entry,
    FellBehind,
    LeadershipLost,
    Put,
    StoreCorrupt,
    StoreUnavailable,
)
from tailrace.controller.key_value.kubernetes.kubernetes_store import KubernetesStore
from tailrace.runtime.chance import RandomChance

SNAPSHOT_TRANSACTIONS = 10


@pytest.fixture
async def server(nursery: trio.Nursery, autojump_clock: MockClock) -> AsyncIterator[KubernetesInMemory]:
    server = KubernetesInMemory()
    await nursery.start(server.run)
    yield server
    nursery.cancel_scope.cancel()


def store(server: KubernetesInMemory) -> KubernetesStore:
    return KubernetesStore(server.api(), RandomChance(), snapshot_transactions=SNAPSHOT_TRANSACTIONS)


async def put(store: KubernetesStore, key: str, value: bytes = b"", version: int = NO_VERSION) -> int:
    (written,) = await store.write([Put(key, value, version)])
    assert written is not None
    return written


async def test_a_write_without_a_response_counts_once(server: KubernetesInMemory) -> None:
    one = store(server)
    first = await put(one, "a", b"1")
    server.lose = lambda method, name: method == "PUT"
    with pytest.raises(StoreUnavailable):
        await one.write([Put("a", b"2", first)])
    server.lose = lambda method, name: False
    found = await one.get("a")
    assert found is not None
    assert found.value == b"2"
    assert await one.write([Put("a", b"2", first)]) == [None]
    assert await store(server).get("a") == found


async def test_an_sc_starts_from_the_last_snapshot_and_few_transactions(server: KubernetesInMemory) -> None:
    one = store(server)
    version = NO_VERSION
    for number in range(95):
        version = await put(one, "a", b"%d" % number, version)
    await put(one, "b")
    server.requests.clear()
    another = store(server)
    assert await another.get("a") == Entry("a", b"94", version)
    assert await another.list("") == await one.list("")
    assert len(server.requests) <= SNAPSHOT_TRANSACTIONS + 5


async def test_old_objects_are_removed(server: KubernetesInMemory) -> None:
    one = store(server)
    version = NO_VERSION
    for number in range(20 * SNAPSHOT_TRANSACTIONS):
        version = await put(one, "a", b"%d" % number, version)
    # The head, two snapshots, the transactions after the older one, and what is about to be removed.
    assert len(server.objects) <= 4 * SNAPSHOT_TRANSACTIONS


async def test_an_sc_that_slept_for_two_snapshots_wakes_up_with_the_truth(server: KubernetesInMemory) -> None:
    sleeper, worker = store(server), store(server)
    old = await put(sleeper, "a", b"old")
    revision = (await sleeper.list("")).revision
    version = old
    for number in range(5 * SNAPSHOT_TRANSACTIONS):
        version = await put(worker, "a", b"%d" % number, version)
    assert await sleeper.write([Put("a", b"mine", old)]) == [None]
    assert await sleeper.list("") == await worker.list("")
    async with sleeper.watch("", revision) as watch:
        with pytest.raises(FellBehind):
            await anext(watch)


async def test_a_late_copy_of_a_removed_transaction_changes_nothing(server: KubernetesInMemory) -> None:
    sleeper, worker = store(server), store(server)
    version = await put(sleeper, "a", b"old")
    for number in range(5 * SNAPSHOT_TRANSACTIONS):
        version = await put(worker, "a", b"%d" % number, version)
    await put(sleeper, "b")  # It copies the transaction of the head that it knows, and then reads the new head.
    assert await store(server).list("") == await worker.list("")


async def test_a_renewal_without_a_response_does_not_end_the_lease(server: KubernetesInMemory) -> None:
    one = store(server)
    entry = await one.take("leader", b"one", 6.0)
    assert entry is not None
    server.lose = lambda method, name: method == "PUT"
    with pytest.raises(StoreUnavailable):
        await one.renew(entry)
    server.lose = lambda method, name: False
    await one.renew(entry)


async def test_a_lease_whose_object_was_removed_has_expired(server: KubernetesInMemory) -> None:
    one, two = store(server), store(server)
    entry = await one.take("leader", b"one", 6.0)
    assert entry is not None
    for name in [name for name in server.objects if "-lease-" in name]:
        del server.objects[name]
    with pytest.raises(LeadershipLost):
        await one.renew(entry)
    assert await two.take("leader", b"two", 6.0) is not None


async def test_a_holder_that_renews_in_the_last_moment_keeps_the_lease(server: KubernetesInMemory) -> None:
    one, two = store(server), store(server)
    entry = await one.take("leader", b"one", 6.0)
    assert entry is not None
    assert await two.take("leader", b"two", 6.0) is None
    await trio.sleep(5.99)
    await one.renew(entry)
    await trio.sleep(0.02)
    assert await two.take("leader", b"two", 6.0) is None


async def test_a_removed_or_restored_head_is_reported(server: KubernetesInMemory) -> None:
    one = store(server)
    version = await put(one, "a")
    before = server.objects["tailrace-head"]
    await put(one, "a", b"2", version)
    server.objects["tailrace-head"] = before
    with pytest.raises(StoreCorrupt, match="has gone back from transaction 2 to 1"):
        await one.get("a")
    del server.objects["tailrace-head"]
    with pytest.raises(StoreCorrupt, match="has been removed"):
        await one.get("a")
