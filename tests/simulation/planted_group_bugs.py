"""Bugs that somebody might write about groups, to be planted like the others."""

from typing import Any

import pytest
from msgspec.structs import replace

from tailrace.broker.controller_link.mirror_updater import MirrorUpdater
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.common.coordinator_output import CoordinatorOutput
from tailrace.broker.groups.consumer.consumer_group import ConsumerGroup
from tailrace.broker.groups.coordinator.classic_requests import ClassicRequests
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.groups.hosting import group_partition
from tailrace.broker.groups.hosting.group_partition import GroupPartition, _Committing
from tailrace.broker.replicas.replica import Replica

from .planted_bugs import PlantedBug

# Between the coordinator and its log


def answers_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    def respond(self: GroupPartition, responses: Any) -> None:
        for each in responses:
            each.send()

    patch.setattr(GroupPartition, "_respond_when_committed", respond)


def answers_from_memory_when_deposed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_partition, "_require_commit", lambda output: None)


def says_that_all_is_well_when_deposed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Committing, "on_refused", lambda self, error: self.on_acknowledged())


def loads_before_recovery_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "is_recovered_leader", property(lambda self: self.is_leader))


def goes_on_with_what_it_knew(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that comes back to lead has what it had then, and not what others did since."""

    async def replay(self: GroupPartition) -> int:
        known = kept.setdefault(self.replica, self.coordinator)
        if known is self.coordinator:
            return await original(self)
        self.coordinator = known
        return 0

    kept: dict[Replica, Coordinator] = {}
    original = GroupPartition._replay
    patch.setattr(GroupPartition, "_replay", replay)


def takes_no_notice_of_tombstones(patch: pytest.MonkeyPatch) -> None:
    def keep_last(body: Any, count: int, last: dict[bytes, bytes | None]) -> None:
        before = dict(last)
        original(body, count, last)
        last.update((key, before.get(key)) for key, value in last.items() if value is None)

    original = group_partition.keep_last  # type: ignore[attr-defined]
    patch.setattr(group_partition, "keep_last", keep_last)


# Classic groups


def tells_assignments_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
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


def takes_commits_of_earlier_generations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "check_commit", lambda self, *arguments, **more: None)


# KIP-848 groups


def gives_what_another_has_not_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "is_free_for", lambda self, member_id, partition: True)


def takes_commits_of_members_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "check_commit", lambda self, *arguments, **more: None)


# What SPUs know of the cluster


def takes_topics_for_gone_that_cannot_be_told_of(patch: pytest.MonkeyPatch) -> None:
    def forget(self: MirrorUpdater, message: Any) -> None:
        message.hidden_topics = []
        original(self, message)

    original = MirrorUpdater._forget_what_is_not_in
    patch.setattr(MirrorUpdater, "_forget_what_is_not_in", forget)


MOVING = ("kill_coordinator", "restart_coordinator", "cut_coordinator_off", "lose_power_of_coordinator")
DEPOSING = ("cut_coordinator_off", "cut_coordinator_from_followers")

GROUP_BUGS = (
    PlantedBug(answers_before_it_is_committed, faults=MOVING, has_groups=True),
    PlantedBug(
        answers_from_memory_when_deposed, faults=("cut_coordinator_off",), has_groups=True, groups=("lone",) * 3
    ),
    PlantedBug(says_that_all_is_well_when_deposed, faults=DEPOSING, has_groups=True),
    PlantedBug(loads_before_recovery_has_ended, faults=MOVING, has_groups=True, first_seed=20),
    PlantedBug(goes_on_with_what_it_knew, faults=MOVING, has_groups=True),
    PlantedBug(takes_no_notice_of_tombstones, faults=MOVING, has_groups=True, groups=("lone",) * 3),
    PlantedBug(
        tells_assignments_before_they_are_stored, faults=MOVING, has_groups=True, groups=("classic",) * 2, first_seed=12
    ),
    PlantedBug(stores_no_assignments, faults=MOVING, has_groups=True, groups=("classic",) * 2),
    PlantedBug(begins_with_the_first_generation_after_a_load, faults=MOVING, has_groups=True, groups=("classic",) * 2),
    PlantedBug(keeps_members_whose_session_has_ended, has_groups=True, groups=("classic",) * 2),
    PlantedBug(takes_commits_of_earlier_generations, has_groups=True, groups=("classic",) * 2),
    PlantedBug(gives_what_another_has_not_given_up, has_groups=True, groups=("consumer",) * 2),
    PlantedBug(
        takes_topics_for_gone_that_cannot_be_told_of,
        faults=("kill_sc", "kill_sc_in_a_write"),
        has_groups=True,
        shows_in=lambda scenario: scenario.partitions_added > 0,
    ),
    PlantedBug(takes_commits_of_members_that_are_gone, has_groups=True, groups=("consumer",) * 2),
)
