"""Bugs that somebody might write about groups, to be planted like the others."""

from dataclasses import replace
from typing import Any

import pytest

from tailrace.broker.group_coordination import GroupCoordination
from tailrace.broker.group_partition import GroupPartition, _Committing
from tailrace.broker.groups.classic_group import ClassicGroup
from tailrace.broker.groups.classic_requests import ClassicRequests
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.coordinator import Coordinator
from tailrace.broker.replicas import Replica

from .planted_bugs import PlantedBug

# Between the coordinator and its log


def answers_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    def answer(self: GroupPartition, answers: Any) -> None:
        for each in answers:
            each.give()

    patch.setattr(GroupPartition, "_answer_when_committed", answer)


def answers_fetches_from_memory_when_deposed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupPartition, "read", GroupPartition.ask)


def says_that_all_is_well_when_deposed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Committing, "on_refused", lambda self, error: self.on_acknowledged())


def loads_before_recovery_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "leads_recovered", property(lambda self: self.is_leader))


def loads_what_is_known_to_be_committed(patch: pytest.MonkeyPatch) -> None:
    """The new leader may not know yet that the last records are."""

    async def load(self: GroupPartition) -> None:
        log = self.replica.log
        self.replica.log = _EndsAt(log, self.replica.high_watermark)  # type: ignore[assignment]
        try:
            await original(self)
        finally:
            self.replica.log = log

    original = GroupPartition.load
    patch.setattr(GroupPartition, "load", load)


class _EndsAt:
    def __init__(self, log: Any, end: int) -> None:
        self._log = log
        self.log_end = end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def goes_on_with_what_it_knew(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that comes back to lead has what it had then, and not what others did since."""

    def load(self: GroupCoordination, replica: Replica) -> None:
        original(self, replica)
        partition = self._partitions[replica.partition]
        known = kept.setdefault((id(self), replica.partition), partition.coordinator)
        partition.coordinator = known

    kept: dict[Any, Coordinator] = {}
    original = GroupCoordination._load
    patch.setattr(GroupCoordination, "_load", load)


def takes_no_notice_of_tombstones(patch: pytest.MonkeyPatch) -> None:
    def replay(self: Coordinator, record: Any) -> None:
        if record.value is not None:
            original(self, record)

    original = Coordinator.replay
    patch.setattr(Coordinator, "replay", replay)


# Classic groups


def tells_assignments_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    def assign(self: ClassicGroup, *arguments: Any) -> None:
        answer, self._ready.answer = self._ready.answer, self._ready.answer_at_once  # type: ignore[method-assign]
        try:
            original(self, *arguments)
        finally:
            self._ready.answer = answer  # type: ignore[method-assign]

    original = ClassicGroup._assign
    patch.setattr(ClassicGroup, "_assign", assign)


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


GROUP_BUGS = tuple(
    PlantedBug(plant, has_groups=True)
    for plant in (
        answers_before_it_is_committed,
        answers_fetches_from_memory_when_deposed,
        says_that_all_is_well_when_deposed,
        loads_before_recovery_has_ended,
        loads_what_is_known_to_be_committed,
        goes_on_with_what_it_knew,
        takes_no_notice_of_tombstones,
        tells_assignments_before_they_are_stored,
        stores_no_assignments,
        begins_with_the_first_generation_after_a_load,
        keeps_members_whose_session_has_ended,
        takes_commits_of_earlier_generations,
        gives_what_another_has_not_given_up,
        takes_commits_of_members_that_are_gone,
    )
)
