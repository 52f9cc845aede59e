"""Bugs in triggers that somebody might write, which are planted like those in `planted_bugs`."""

import math
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker.groups.coordinator.offset_commits import OffsetCommits
from tailrace.trigger.membership.member import Member
from tailrace.trigger.replica.group_offsets import Claim, GroupOffsets, Mark
from tailrace.trigger.replica.transactional_output import TransactionalOutput
from tailrace.trigger.replica.trigger_replica import Replica
from tailrace.trigger.shards.shard_line import ShardLine

from .trigger_scenario import TRIGGER_FAULTS, TriggerScenario, trigger_scenario_of, with_transactions

LONG_EVENTS: dict[str, Any] = {
    "members": 3,
    "wanted": 2,
    "workers": 2,
    "session_seconds": 1.5,
    "slow": 0.3,
    "slow_seconds": (2.5,),
    "batches": 8,
    "link_seconds": 0.0005,
}
"""A scenario with events that take longer than a session, and with a replica that waits to take over."""


class PlantedTriggerBug(Struct, frozen=True):
    plant: Callable[[pytest.MonkeyPatch], None]
    faults: tuple[str, ...] | None = None
    """The kinds of faults in the seeds of the search, or None for all kinds."""
    has_long_events: bool = False
    """Whether many events take longer than a session, so that some run when a lease ends."""
    is_exactly_once: bool = False
    """Whether output is stored in transactions."""
    first_seed: int = 0
    """The first seed of the search, near the seed that last detected the bug."""

    def scenarios(self) -> Iterator[TriggerScenario]:
        """Yields the scenarios in which the bug may be detected."""
        for seed in count(self.first_seed):
            scenario = trigger_scenario_of(seed, faults=self.faults or tuple(TRIGGER_FAULTS))
            if self.is_exactly_once:
                scenario = with_transactions(scenario)
            yield replace(scenario, **LONG_EVENTS) if self.has_long_events else scenario

    @property
    def name(self) -> str:
        return self.plant.__name__


# claims and commits


def handles_before_it_has_claimed(patch: pytest.MonkeyPatch) -> None:
    """Begins at the committed offset without a commit of its own, so that its predecessor is not fenced."""

    async def claim(self: GroupOffsets, shard: Any, epoch: int, seek_to: Any) -> Claim:
        return await self.beginning(shard, seek_to)

    patch.setattr(GroupOffsets, "claim", claim)


def accepts_commits_of_deposed_owners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetCommits, "_is_fenced", lambda self, *arguments: False)


def takes_shards_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    def write(self: Member, read: Any, view: Any, wanted: Any, wall_ms: int) -> Any:
        step = original(self, read, view, wanted, wall_ms)
        self._pending = replace(self._pending, epochs=dict.fromkeys(wanted, 1))
        return replace(step, state=replace(step.state, epoch=1))

    original = Member._write
    patch.setattr(Member, "_write", write)


def leaves_without_a_last_commit(patch: pytest.MonkeyPatch) -> None:
    async def commit_last(self: Replica, task: Any) -> None:
        pass

    patch.setattr(Replica, "_commit_last", commit_last)


# leases


def counts_the_lease_from_the_reply(patch: pytest.MonkeyPatch) -> None:
    def on_written(self: Member, now: float, sent_at: float, version: int, fraction: float) -> Any:
        return original(self, now, now, version, fraction)

    original = Member.on_written
    patch.setattr(Member, "on_written", on_written)


def lets_workers_go_on_after_the_lease(patch: pytest.MonkeyPatch) -> None:
    def on_lease(self: Replica, lease: Any) -> None:
        original(self, lease)
        self._parts.workers.set_lease(math.inf)

    original = Replica.on_lease
    patch.setattr(Replica, "on_lease", on_lease)


def compares_wall_clocks(patch: pytest.MonkeyPatch) -> None:
    def on_read(self: Member, now: float, wall_ms: int, fraction: float, read: Any) -> Any:
        ages_ms = {each.member_id: wall_ms - each.last_heartbeat_ms for each in read.state.members}
        return original(self, now, wall_ms, fraction, replace(read, ages_ms=ages_ms))

    original = Member.on_read
    patch.setattr(Member, "on_read", on_read)


def takes_over_the_entry_of_its_predecessor_at_once(patch: pytest.MonkeyPatch) -> None:
    def is_stale(self: Member, member: Any, read: Any) -> bool:
        return member.member_id == self.config.member_id or original(self, member, read)

    original = Member._is_stale
    patch.setattr(Member, "_is_stale", is_stale)


def releases_shards_before_they_are_drained(patch: pytest.MonkeyPatch) -> None:
    def on_release(self: Replica, shards: Collection[int]) -> None:
        original(self, shards)
        for number in shards:
            self._membership.released(number)

    original = Replica.on_release
    patch.setattr(Replica, "on_release", on_release)


# marks


def marks_events_before_their_output_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardLine, "mark", property(lambda self: self._handled))


def marks_the_highest_event_that_was_handed_out(patch: pytest.MonkeyPatch) -> None:
    def on_outcome(self: ShardLine, chunk: Any, outcome: Any, *arguments: Any) -> Any:
        reached = outcome.next_offset if outcome.failure is None else outcome.failure.end
        highest[self] = max(highest.get(self, 0), reached)
        return original(self, chunk, outcome, *arguments)

    highest: dict[ShardLine, int] = {}
    original = ShardLine.on_outcome
    mark = ShardLine.mark.fget  # type: ignore[attr-defined]
    patch.setattr(ShardLine, "on_outcome", on_outcome)
    patch.setattr(ShardLine, "mark", property(lambda self: max(mark(self), highest.get(self, 0))))


# transactions


def commits_the_mark_after_the_output(patch: pytest.MonkeyPatch) -> None:
    async def commit(self: TransactionalOutput, mark: Mark) -> None:
        await self._producer.commit(self._offsets.group, {})
        await self._offsets.commit({self._shard: mark})

    patch.setattr(TransactionalOutput, "commit", commit)


LATE = ("freeze_replica", "cut_replica_off", "cut_replica_one_way", "clog_replica", "cut_replica_from_brokers")

TRIGGER_BUGS = (
    PlantedTriggerBug(handles_before_it_has_claimed),
    PlantedTriggerBug(accepts_commits_of_deposed_owners, faults=LATE),
    PlantedTriggerBug(takes_shards_without_a_new_epoch),
    PlantedTriggerBug(leaves_without_a_last_commit, faults=("stop_replica", "redeploy")),
    PlantedTriggerBug(counts_the_lease_from_the_reply, faults=("fade_away",), has_long_events=True, first_seed=10),
    PlantedTriggerBug(
        lets_workers_go_on_after_the_lease, faults=("freeze_replica", "cut_replica_off"), has_long_events=True
    ),
    PlantedTriggerBug(compares_wall_clocks, faults=("jump_clock_of_replica",)),
    PlantedTriggerBug(takes_over_the_entry_of_its_predecessor_at_once, faults=("replace_lost_replica",)),
    PlantedTriggerBug(releases_shards_before_they_are_drained, faults=("stop_replica", "redeploy")),
    PlantedTriggerBug(marks_events_before_their_output_is_acknowledged),
    PlantedTriggerBug(marks_the_highest_event_that_was_handed_out),
    PlantedTriggerBug(commits_the_mark_after_the_output, is_exactly_once=True, first_seed=8),
)
