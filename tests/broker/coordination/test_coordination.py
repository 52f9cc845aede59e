"""Tests of coordinators on whole SPUs: the leader of a partition loads its coordinator, and asks it."""

import builtins
import errno
from collections.abc import Callable

import pytest
import trio
from asking_coordinators import FEW, ask, commit, coordinator_of, find, records, replica_of, tell
from clusters import cluster_of
from grouping import Asked
from spus import World, led_elsewhere, running_spu
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.controller_link import isolation
from tailrace.broker.coordination.coordination import (
    HELD_BYTES_MAX,
    HELD_REQUESTS_MAX,
    HELD_SECONDS_MAX,
    LOAD_AGAIN_SECONDS,
)
from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.spu import Spu
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.protocol.error_codes import ErrorCode, KafkaError

LOADING, NOT_HERE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR


async def test_without_the_offsets_topic_there_is_no_coordinator(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        asked = ask(running.spu, tell)
        assert asked.error is not None
        assert asked.error.code == NOT_HERE


async def test_what_is_appended_is_answered_and_there_after_a_restart(autojump_clock: object) -> None:
    world = World()
    async with running_spu(world, FEW) as running:
        await find(running)
        assert ask(running.spu, commit(7)).reply == 7
        assert records(running.spu) == 1
    async with running_spu(world, FEW) as running:
        await wait_all_tasks_blocked()
        assert records(running.spu) == 1
        assert ask(running.spu, tell).reply == "told"


async def test_groups_are_loaded_as_soon_as_their_modules_can_be_opened(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new SPU has not imported the modules of groups, and may have no descriptor left when it is elected."""
    really_import = builtins.__import__

    def import_unless_used_up(name: str, *arguments: object) -> object:
        if name == "coordinated_partition":
            raise OSError(errno.EMFILE, "Too many open files")
        return really_import(name, *arguments)  # type: ignore[arg-type]

    async with running_spu(broker=FEW) as running:
        await find(running)
        replica = replica_of(running.spu)
        spec = replica.spec
        led_elsewhere(replica)
        monkeypatch.setattr(builtins, "__import__", import_unless_used_up)
        replica.use_spec(spec)
        refused = ask(running.spu, tell)
        assert refused.error is not None
        assert refused.error.code == NOT_HERE
        monkeypatch.undo()
        await trio.sleep(LOAD_AGAIN_SECONDS)
        await wait_all_tasks_blocked()
        assert ask(running.spu, tell).reply == "told"


async def test_nothing_is_answered_while_groups_are_loaded(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica = replica_of(running.spu)
        spec = replica.spec
        led_elsewhere(replica)
        gone = ask(running.spu, tell)
        replica.use_spec(spec)
        loading = ask(running.spu, tell)
        assert running.spu.groups.is_loading
        await wait_all_tasks_blocked()
        loaded = ask(running.spu, tell)
        assert gone.error is not None
        assert loading.error is not None
        assert (gone.error.code, loading.error.code, loaded.reply) == (NOT_HERE, LOADING, "told")
        assert not running.spu.groups.is_loading


async def test_parked_requests_are_refused_when_another_spu_leads(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        partner = 3 - spu.id
        await cluster.kill_spu(partner)
        waiting = ask(spu, commit(1))
        assert waiting.is_waiting
        led_elsewhere(replica_of(spu), partner)
        assert waiting.error is not None
        assert waiting.error.code == NOT_HERE


async def test_no_response_is_sent_before_every_live_replica_has_the_records(autojump_clock: object) -> None:
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await cluster.kill_spu(3 - spu.id)
        committing = ask(spu, commit(1))
        reading = ask(spu, tell)
        assert committing.is_waiting
        assert reading.is_waiting  # the response may depend on a very recent commit
        await trio.sleep(60)
        assert committing.answers == reading.answers == 1
        assert ask(spu, commit(2)).reply == 2


async def test_an_answer_is_not_waited_for_longer_than_the_config_says(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "WITHOUT_LEASE_SECONDS_MAX", 60)
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await cluster.kill_spu(3 - spu.id)
        await cluster.kill_sc()  # no SC removes replicas from the live set
        committing = ask(spu, commit(1))
        await trio.sleep(spu.broker_configs.settings.offsets_commit_timeout_ms / 1000 + 0.001)
        assert committing.error is not None
        assert committing.error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_the_successor_of_a_killed_coordinator_has_all_its_records(autojump_clock: object) -> None:
    async with cluster_of(1, 2, 3) as cluster:
        spu = await coordinator_of(cluster)
        for offset in range(5):
            asked = ask(spu, commit(offset))
            await trio.sleep(0.1)
            assert asked.reply == offset
        await cluster.kill_spu(spu.id)
        await trio.sleep(30)
        others = [each.spu for each in cluster.spus.values()]
        (following,) = [each for each in others if ask(each, tell).error is None]
        assert records(following) == 5


def tell_at_once(coordinator: Coordinator, moment: Moment, asked: Asked) -> None:
    coordinator.output.respond_at_once(asked, "told")


def refuse(coordinator: Coordinator, moment: Moment, asked: Asked) -> None:
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("call", [tell, tell_at_once, refuse])
async def test_without_a_lease_no_response_is_sent_before_the_followers_have_a_record(
    autojump_clock: object, call: Callable[[Coordinator, Moment, Asked], None]
) -> None:
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await trio.sleep(1)
        assert not ask(spu, call).is_waiting
        assert records(spu) == 0
        await cluster.kill_sc()
        await trio.sleep(5)
        asked = ask(spu, call)
        assert asked.is_waiting
        await trio.sleep(1)
        assert not asked.is_waiting
        assert records(spu) == 1


async def test_without_a_lease_no_client_is_told_to_wait_for_the_load(autojump_clock: object) -> None:
    """Members that are told to wait keep their partitions, which other members may have by now."""
    async with cluster_of(1, 2) as cluster:
        spu = await coordinator_of(cluster)
        await cluster.kill_sc()
        await trio.sleep(5)
        (partition,) = [each for each in spu.groups.loaded() if each.replica is replica_of(spu)]
        spu.groups.restart(partition)
        loading = ask(spu, tell)
        assert loading.error is not None
        assert loading.error.code == NOT_HERE


async def test_clients_wait_for_the_recovery_if_no_other_spu_can_lead(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica = replica_of(running.spu)
        replica.begin_leading()
        recovering = ask(running.spu, tell)
        replica.is_alone = False
        running.spu.lease.end = trio.current_time()
        unsure = ask(running.spu, tell)
        replica.is_alone = True
        replica.end_recovering()
        await wait_all_tasks_blocked()
        recovered = ask(running.spu, tell)
        assert recovering.error is not None
        assert unsure.error is not None
        assert (recovering.error.code, unsure.error.code, recovered.reply) == (LOADING, NOT_HERE, "told")


async def test_groups_that_the_leader_before_left_are_still_to_be_known(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica = replica_of(running.spu)
        replica.begin_leading()
        assert running.spu.groups.is_loading
        replica.go_offline("no disk")
        assert not running.spu.groups.is_loading


async def test_a_deleted_topic_takes_no_offsets_from_its_successor(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        gone = replica_of(running.spu)
        await running.delete(running.spu.cluster.topics[GROUPS_TOPIC])
        assert ask(running.spu, tell).error is not None
        await find(running)
        gone.go_offline("its last sync has failed")
        assert replica_of(running.spu) is not gone
        assert ask(running.spu, tell).reply == "told"


async def test_after_a_mistake_of_ours_the_log_is_asked_what_there_is(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        (before,) = [each for each in running.spu.groups.loaded() if each.replica is replica_of(running.spu)]

        def broken(coordinator: Coordinator, moment: Moment, asked: Asked) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            ask(running.spu, broken)
        await wait_all_tasks_blocked()
        (after,) = [each for each in running.spu.groups.loaded() if each.replica is before.replica]
        assert after is not before
        assert ask(running.spu, tell).reply == "told"


def ask_patiently(spu: Spu, size_bytes: int = 100, group: str = "g") -> Asked:
    asked = Asked()
    spu.groups.ask(group, asked, lambda coordinator, moment: tell(coordinator, moment, asked), size_bytes)
    return asked


async def test_a_patient_request_waits_until_its_group_is_loaded(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica = replica_of(running.spu)
        spec = replica.spec
        led_elsewhere(replica)
        replica.use_spec(spec)
        patient = ask_patiently(running.spu)
        assert patient.is_waiting
        await wait_all_tasks_blocked()
        assert patient.reply == "told"
        assert ask_patiently(running.spu).reply == "told", "it need not wait when the group is loaded"


async def test_a_patient_request_looks_for_the_next_coordinator_if_another_spu_leads(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica = replica_of(running.spu)
        replica.begin_leading()
        patient = ask_patiently(running.spu)
        assert patient.is_waiting
        led_elsewhere(replica)
        assert patient.error is not None
        assert patient.error.code == NOT_HERE


async def test_a_patient_request_does_not_wait_forever(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica_of(running.spu).begin_leading()
        patient = ask_patiently(running.spu)
        await trio.sleep(HELD_SECONDS_MAX - 0.001)
        assert patient.is_waiting
        await trio.sleep(0.001)
        await wait_all_tasks_blocked()
        assert patient.error is not None
        assert patient.error.code == LOADING


async def test_only_so_many_and_so_large_requests_wait(autojump_clock: object) -> None:
    async with running_spu(broker=FEW) as running:
        await find(running)
        replica_of(running.spu).begin_leading()
        assert not ask_patiently(running.spu, HELD_BYTES_MAX + 1).is_waiting
        waiting = [ask_patiently(running.spu) for _ in range(HELD_REQUESTS_MAX)]
        assert all(each.is_waiting for each in waiting)
        assert not ask_patiently(running.spu).is_waiting
        await trio.sleep(HELD_SECONDS_MAX)
        await wait_all_tasks_blocked()
        assert not any(each.is_waiting for each in waiting)
