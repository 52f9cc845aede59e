from collections.abc import Sequence

import pytest
import structlog
import trio
import trio.testing
from msgspec.structs import replace
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from tailrace.controller.key_value.interface import Change, Entry, LeadershipLost, StoreUnavailable
from tailrace.controller.key_value.memory import MemoryStore
from tailrace.controller.objects.objects import (
    Object,
    Spu,
    SpuGroup,
    SpuGroupSpec,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    Topic,
    TopicSpec,
)
from tailrace.controller.state.actions import Delete, Provision, Put, Terminate
from tailrace.controller.state.object_codec import decode
from tailrace.controller.workflow.updaters import KvUpdater, NoProvisioner, ProvisionerUpdater, UpdaterCounts
from tailrace.protocol.ids import NO_TOPIC_ID, SpuId

LOGGER = structlog.get_logger()


def group(name: str, replicas: int = 1, version: int = 0) -> SpuGroup:
    return SpuGroup(name, SpuGroupSpec(replicas), version=version)


async def objects_in(store: MemoryStore) -> list[Object]:
    return [decode(entry.key, entry.value, entry.version) for entry in (await store.list("")).entries]


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []
        self.failures = 0
        self.fails_afterwards = False
        self.write_seconds = 0.0

    async def write(self, changes: Sequence[Change], guard: Entry | None = None) -> Sequence[int | None]:
        self.writes.append(len(changes))
        await trio.sleep(self.write_seconds)
        if not self.failures:
            return await super().write(changes, guard)
        self.failures -= 1
        if self.fails_afterwards:
            await super().write(changes, guard)
        raise StoreUnavailable("nobody answers")


async def test_decisions_during_a_write_are_written_together(nursery: trio.Nursery) -> None:
    store = CountingStore()
    counts = UpdaterCounts()
    updater = KvUpdater(store, counts, LOGGER)
    for name in "abc":
        updater.take(Put(group(name)))
    nursery.start_soon(updater.run)
    await wait_all_tasks_blocked()
    assert await objects_in(store) == [group("a", version=1), group("b", version=2), group("c", version=3)]
    updater.take(Delete(group("b", version=2)))
    await wait_all_tasks_blocked()
    assert await objects_in(store) == [group("a", version=1), group("c", version=3)]
    assert store.writes == [3, 1]
    assert (counts.written_objects, counts.lost_writes) == (4, 0)
    nursery.cancel_scope.cancel()


async def test_only_the_newest_decision_about_an_object_is_kept(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    updater = KvUpdater(store, UpdaterCounts(), LOGGER)
    for replicas in range(1001):
        updater.take(Put(group("a", replicas)))
        assert updater.waiting == 1
    nursery.start_soon(updater.run)
    await wait_all_tasks_blocked()
    assert await objects_in(store) == [group("a", 1000, version=1)]
    nursery.cancel_scope.cancel()


async def test_a_lost_compare_and_set_is_dropped_and_counted(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    counts = UpdaterCounts()
    updater = KvUpdater(store, counts, LOGGER)
    nursery.start_soon(updater.run)
    updater.take(Put(group("a", 1, version=7)))
    updater.take(Put(group("b", 1)))
    await wait_all_tasks_blocked()
    assert await objects_in(store) == [group("b", version=1)]
    assert (counts.written_objects, counts.lost_writes, updater.waiting) == (1, 1, 0)
    assert updater.written.keys() == {"spu-group/b"}, "the other one will not come back"
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("afterwards", [False, True])
async def test_a_write_without_a_response_is_repeated_in_order_unless_it_was_replaced(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, afterwards: bool
) -> None:
    store = CountingStore()
    store.failures = 3
    store.fails_afterwards = afterwards
    updater = KvUpdater(store, UpdaterCounts(), LOGGER)
    nursery.start_soon(updater.run)
    updater.take(Put(group("a")))
    updater.take(Put(group("b")))
    await wait_all_tasks_blocked()
    updater.take(Put(group("b", 5)))
    updater.take(Put(group("c")))
    await trio.sleep(10)
    found = await objects_in(store)
    b = group("b", 1 if afterwards else 5, version=2)  # A write that succeeded counts, and the newer decision loses.
    assert found == [group("a", version=1), b, group("c", version=3)]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_being_written", [False, True])
async def test_a_status_that_is_withdrawn_is_not_written_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, is_being_written: bool
) -> None:
    store = CountingStore()
    store.failures = 3
    store.write_seconds = 0.1
    updater = KvUpdater(store, UpdaterCounts(), LOGGER)
    nursery.start_soon(updater.run)
    here, others = Spu(SpuSpec(SpuId(1))), [Spu(SpuSpec(SpuId(number))) for number in (2, 3)]
    for spu in (here, *others):
        updater.take(Put(replace(spu, status=SpuStatus(SpuResolution.OFFLINE))))
    updater.take(Put(replace(others[1], spec=replace(others[1].spec, rack="another"))))
    await trio.sleep(0.05 if is_being_written else 0.11)
    for spu in (here, others[1]):
        updater.withdraw_status(spu)
    await trio.sleep(10)
    assert [(spu.spec.id, spu.status.resolution) for spu in await objects_in(store) if isinstance(spu, Spu)] == [
        (2, SpuResolution.OFFLINE),
        (3, SpuResolution.INIT),
    ]
    nursery.cancel_scope.cancel()


async def test_nothing_is_written_once_somebody_else_leads() -> None:
    store = MemoryStore()
    lease = await store.take("leader", b"sc-1", 10)
    assert lease is not None
    updater = KvUpdater(store, UpdaterCounts(), LOGGER, lease)
    updater.take(Put(group("a")))
    await store.give_up(lease)
    with pytest.raises(LeadershipLost):
        await updater.run()
    assert await objects_in(store) == []


async def test_an_object_that_is_too_large_holds_up_no_other(nursery: trio.Nursery) -> None:
    store = MemoryStore()
    counts = UpdaterCounts()
    updater = KvUpdater(store, counts, LOGGER)
    updater.take(Put(Topic("large", NO_TOPIC_ID, TopicSpec(configs={"a": "x" * 1024 * 1024}))))
    updater.take(Put(group("a")))
    nursery.start_soon(updater.run)
    with capture_logs() as logs:
        await wait_all_tasks_blocked()
    assert await objects_in(store) == [group("a", version=1)]
    assert [log["key"] for log in logs if log["event"] == "object_too_large"] == ["topic/large"]
    assert counts.oversized_objects == 1
    nursery.cancel_scope.cancel()


class ScriptedProvisioner:
    """A provisioner that fails as often as scripted, then records the calls."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.asked: list[tuple[str, int]] = []

    async def provision(self, spu: Spu) -> None:
        await self._note("provision", spu.spec.id)

    async def terminate(self, spu: SpuId) -> None:
        await self._note("terminate", spu)

    def refusal(self, wanted: SpuGroup, before: SpuGroup | None) -> str | None:
        return None

    async def _note(self, what: str, spu: SpuId) -> None:
        await trio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise OSError("no room for a process")
        self.asked.append((what, spu))


def provision(spu: int) -> Provision:
    return Provision(Spu(SpuSpec(SpuId(spu))))


async def test_spus_are_provisioned_in_order_and_by_the_newest_decision(nursery: trio.Nursery) -> None:
    provisioner = ScriptedProvisioner()
    updater = ProvisionerUpdater(provisioner, UpdaterCounts(), LOGGER)
    for action in (provision(11), provision(12), Terminate(SpuId(13)), Terminate(SpuId(11))):
        updater.take(action)
    nursery.start_soon(updater.run)
    await wait_all_tasks_blocked()
    assert provisioner.asked == [("terminate", 11), ("provision", 12), ("terminate", 13)]
    nursery.cancel_scope.cancel()


async def test_a_failed_provision_is_retried_after_the_others(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    provisioner = ScriptedProvisioner(failures=1)
    counts = UpdaterCounts()
    updater = ProvisionerUpdater(provisioner, counts, LOGGER)
    updater.take(provision(11))
    updater.take(provision(12))
    with capture_logs() as logs:
        nursery.start_soon(updater.run)
        await trio.sleep(10)
    assert provisioner.asked == [("provision", 12), ("provision", 11)]
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["provisioning_failed"]
    assert counts.failed_provisions == 1
    nursery.cancel_scope.cancel()


async def test_an_sc_without_a_provisioner_logs_that() -> None:
    with capture_logs() as logs:
        await NoProvisioner(structlog.get_logger()).provision(Spu(SpuSpec(SpuId(11), group="main")))
        await NoProvisioner(structlog.get_logger()).terminate(SpuId(11))
    assert [(log["event"], log["spu"]) for log in logs] == [("spu_not_provisioned", 11), ("spu_not_terminated", 11)]
