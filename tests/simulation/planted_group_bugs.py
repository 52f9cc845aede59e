"""Bugs in groups that somebody might write, which are planted like those in `planted_bugs`."""

from typing import Any

import pytest
from msgspec.structs import replace

from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.broker.coordination import coordinated_partition, folded_records
from tailrace.broker.coordination.coordinated_partition import CoordinatedPartition, _Committing
from tailrace.broker.coordination.coordinator_output import CoordinatorOutput
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.coordinator.classic_requests import ClassicRequests
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.replicas.replica import Replica

from .planted_bugs import PlantedBug

# coordinator and log


def responds_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    def respond(self: CoordinatedPartition[Any], responses: Any, end: int) -> None:
        for each in responses:
            each.send()

    patch.setattr(CoordinatedPartition, "_respond_when_committed", respond)


def responds_from_memory_when_deposed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinated_partition, "_require_commit", lambda output, barrier: None)


def reports_success_when_deposed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Committing, "on_refused", lambda self, error: self.on_acknowledged())


def loads_before_recovery_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "is_recovered_leader", property(lambda self: self.is_leader))


def keeps_its_old_state_when_it_leads_again(patch: pytest.MonkeyPatch) -> None:
    """Keeps the state that a coordinator had when it led before, without the later changes of others."""

    async def replay(self: CoordinatedPartition[Any]) -> int:
        known = kept.setdefault(self.replica, self.coordinator)
        if known is self.coordinator:
            return await original(self)
        self.coordinator = known
        return 0

    kept: dict[Replica, Coordinator] = {}
    original = CoordinatedPartition._replay
    patch.setattr(CoordinatedPartition, "_replay", replay)


def ignores_tombstones(patch: pytest.MonkeyPatch) -> None:
    def keep_last(body: Any, count: int, last: dict[bytes, bytes | None]) -> None:
        before = dict(last)
        original(body, count, last)
        last.update((key, before.get(key)) for key, value in last.items() if value is None)

    original = folded_records.keep_last  # type: ignore[attr-defined]
    patch.setattr(folded_records, "keep_last", keep_last)


# classic groups


def sends_assignments_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    def assign(self: ClassicGroup, *arguments: Any) -> None:
        output, self._output = self._output, _AtOnce(self._output)  # type: ignore[assignment]
        original(self, *arguments)
        self._output = output

    original = ClassicGroup._assign
    patch.setattr(ClassicGroup, "_assign", assign)


class _AtOnce:
    def __init__(self, output: CoordinatorOutput) -> None:
        self._output = output
        self.respond = output.respond_at_once

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def stores_no_assignments(patch: pytest.MonkeyPatch) -> None:
    def stored(cls: Any, *arguments: Any) -> ClassicGroup:
        group = original(*arguments)
        for member in group.members:
            member.assignment = b""
        return group

    original = ClassicGroup.stored
    patch.setattr(ClassicGroup, "stored", classmethod(stored))


def begins_with_the_first_generation_after_a_load(patch: pytest.MonkeyPatch) -> None:
    def replay(self: ClassicRequests, record: Any) -> None:
        if record.value is not None:
            record = replace(record, value=replace(record.value, generation=1))
        original(self, record)

    original = ClassicRequests.replay
    patch.setattr(ClassicRequests, "replay", replay)


def keeps_members_whose_session_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "_on_session_ended", lambda self, member_id, moment: None)


def accepts_commits_of_earlier_generations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "check_commit", lambda self, *arguments, **more: None)


# KIP-848 groups


def assigns_partitions_before_they_are_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "is_free_for", lambda self, member_id, partition: True)


def accepts_commits_of_removed_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "check_commit", lambda self, *arguments, **more: None)


# the SPU's knowledge of the cluster


def takes_hidden_topics_for_deleted(patch: pytest.MonkeyPatch) -> None:
    def forget(self: MirrorUpdater, message: Any) -> None:
        message.hidden_topics = []
        original(self, message)

    original = MirrorUpdater._remove_others
    patch.setattr(MirrorUpdater, "_remove_others", forget)


MOVING = ("kill_coordinator", "restart_coordinator", "cut_coordinator_off", "lose_power_of_coordinator")
DEPOSING = ("cut_coordinator_off", "cut_coordinator_from_followers")

GROUP_BUGS = (
    PlantedBug(responds_before_it_is_committed, faults=MOVING, has_groups=True),
    PlantedBug(
        responds_from_memory_when_deposed, faults=("cut_coordinator_off",), has_groups=True, groups=("lone",) * 3
    ),
    PlantedBug(reports_success_when_deposed, faults=DEPOSING, has_groups=True),
    PlantedBug(loads_before_recovery_has_ended, faults=MOVING, has_groups=True, first_seed=20),
    PlantedBug(keeps_its_old_state_when_it_leads_again, faults=MOVING, has_groups=True),
    PlantedBug(ignores_tombstones, faults=MOVING, has_groups=True, groups=("lone",) * 3),
    PlantedBug(
        sends_assignments_before_they_are_stored, faults=MOVING, has_groups=True, groups=("classic",) * 2, first_seed=12
    ),
    PlantedBug(stores_no_assignments, faults=MOVING, has_groups=True, groups=("classic",) * 2),
    PlantedBug(begins_with_the_first_generation_after_a_load, faults=MOVING, has_groups=True, groups=("classic",) * 2),
    PlantedBug(keeps_members_whose_session_has_ended, has_groups=True, groups=("classic",) * 2),
    PlantedBug(accepts_commits_of_earlier_generations, has_groups=True, groups=("classic",) * 2),
    PlantedBug(assigns_partitions_before_they_are_released, has_groups=True, groups=("consumer",) * 2),
    PlantedBug(
        takes_hidden_topics_for_deleted,
        faults=("kill_sc", "kill_sc_in_a_write"),
        has_groups=True,
        shows_in=lambda scenario: scenario.partitions_added > 0,
    ),
    PlantedBug(accepts_commits_of_removed_members, has_groups=True, groups=("consumer",) * 2),
)
