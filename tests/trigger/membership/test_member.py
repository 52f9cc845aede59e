import json
import math

import pytest
from stream_states import StateInMemory

from tailrace.cluster.stream_state.rebalance_causes import Rebalance, RebalanceCause
from tailrace.cluster.stream_state.stream_state import GroupState, StreamMember, member_documents
from tailrace.trigger.membership.member import Member, MembershipConfig, Wait, WaitReason, Write

WALL_MS = 1_769_860_800_000  # 2026-01-31T12:00:00Z


def member(member_id: str, process: str = "", replicas: int = 3, session_timeout: float = 10.0) -> Member:
    config = MembershipConfig(member_id=member_id, replicas=replicas, session_timeout=session_timeout)
    return Member(config, process or f"process of {member_id}")


class Loop:
    """The loop of one member, which acts when it is due."""

    def __init__(self, member: Member, store: StateInMemory, now: float = 0.0) -> None:
        self.member = member
        self.store = store
        self.wait = Wait(now, WaitReason.CHANGED)
        self.rebalances: list[Rebalance] = []

    def look(self, now: float, fraction: float = 0.0) -> Wait:
        """Reads, and writes if the member wants to."""
        step = self.member.on_read(now, WALL_MS + int(now * 1000), fraction, self.store.read(now))
        if isinstance(step, Write):
            version = self.store.write(step.state, step.expected_version, now)
            if version is None:
                step = self.member.on_conflict(now, fraction)
            else:
                self.rebalances += step.rebalances
                step = self.member.on_written(now, now, version, fraction)
        self.wait = step
        return step

    def kinds(self) -> list[tuple[RebalanceCause, str, bool]]:
        return [(each.cause, each.member_id, each.is_gain) for each in self.rebalances]


def run(loops: list[Loop], until: float, now: float = 0.0) -> float:
    """Runs the loops in the order of their times, and releases at once the shards that members should release."""
    while True:
        loop = min(loops, key=lambda each: each.wait.until)
        if loop.wait.until > until:
            return until
        now = max(now, loop.wait.until)
        loop.look(now)
        for shard in sorted(loop.member.releasing):
            loop.member.released(shard)
            loop.wait = Wait(now, WaitReason.CHANGED)


def shards(store: StateInMemory) -> dict[str, str]:
    return {each["member_id"]: each["shards"] for each in member_documents(store.state)}


def three(store: StateInMemory) -> list[Loop]:
    loops = [Loop(member(f"replica{number}"), store) for number in (1, 2, 3)]
    for second, loop in enumerate(loops):
        loop.look(second)
    return loops


# The worked example of the seed: 12 shards, 3 replicas


def test_the_first_replica_takes_only_a_third() -> None:
    store = StateInMemory(12)
    Loop(member("replica1"), store).look(0)
    assert shards(store) == {"replica1": "0-3"}


def test_three_replicas_give_the_state_object_of_the_seed() -> None:
    store = StateInMemory(12)
    loops = three(store)
    assert json.dumps(member_documents(store.state), indent=2) == (
        """\
[
  {
    "member_id": "replica1",
    "shards": "0-3",
    "last_heartbeat": "2026-01-31T12:00:00.000Z"
  },
  {
    "member_id": "replica2",
    "shards": "4-7",
    "last_heartbeat": "2026-01-31T12:00:01.000Z"
  },
  {
    "member_id": "replica3",
    "shards": "8-11",
    "last_heartbeat": "2026-01-31T12:00:02.000Z"
  }
]"""
    )
    assert [set(loop.member.shards.items()) for loop in loops] == [
        {(0, 1), (1, 1), (2, 1), (3, 1)},
        {(4, 2), (5, 2), (6, 2), (7, 2)},
        {(8, 3), (9, 3), (10, 3), (11, 3)},
    ]
    assert [loop.kinds() for loop in loops] == [
        [(RebalanceCause.JOINED, loop.member.config.member_id, True)] for loop in loops
    ]


def test_a_heartbeat_is_due_every_three_seconds_and_changes_only_its_time() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    assert loop.look(0) == Wait(3.0, WaitReason.HEARTBEAT)
    assert loop.look(1) == Wait(3.0, WaitReason.HEARTBEAT)
    assert store.version == 1
    loop.look(3)
    assert [each.members[0].last_heartbeat_ms - WALL_MS for each in store.writes] == [0, 3000]
    assert loop.member.shards == dict.fromkeys(range(4), 1)


def test_each_heartbeat_differs_even_if_the_wall_clock_stands_still() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    for now in (0, 3, 6):
        step = loop.member.on_read(now, WALL_MS, 0, store.read(now))
        assert isinstance(step, Write)
        loop.member.on_written(now, now, store.plant(step.state, now), 0)
    assert [each.members[0].last_heartbeat_ms - WALL_MS for each in store.writes] == [0, 1, 2]


# Redeployment


def redeployed(store: StateInMemory, loops: list[Loop], at: float) -> Loop:
    """Puts a new process in the place of replica1."""
    new = Loop(member("replica1", process="the new one"), store, at)
    loops[0] = new
    return new


def test_a_new_replica1_waits_until_its_old_entry_is_stale() -> None:
    store = StateInMemory(12)
    loops = three(store)
    run(loops, until=30)
    last = store.state.member("replica1")
    assert last is not None
    new = redeployed(store, loops, 30.5)
    # The others must not remove the old entry before the new process does.
    others, loops = loops[1:], [new]
    pauses = []
    while new.wait.until < 40.001:
        for other in others:
            if other.wait.until <= new.wait.until < 39:
                other.look(other.wait.until)
        before = new.wait.until
        assert new.look(before).reason is WaitReason.NAME_TAKEN
        pauses.append(new.wait.until - before)
        assert store.state.member("replica1") == last
        assert not new.member.shards
    assert pauses[:4] == pytest.approx([0.025, 0.05, 0.1, 0.2])
    assert max(pauses) <= 1.0
    assert new.wait.until == pytest.approx(40.002, abs=0.002), "the session timeout after the last heartbeat, at 30"
    new.look(new.wait.until)
    assert shards(store) == {"replica1": "0-3", "replica2": "4-7", "replica3": "8-11"}
    assert new.kinds() == [
        (RebalanceCause.STALE_MEMBER_REMOVED, "replica1", False),
        (RebalanceCause.JOINED, "replica1", True),
    ]
    assert set(new.member.shards.values()) == {4}, "an epoch above those of the old process"


def test_the_other_replicas_remove_the_old_entry_on_their_heartbeats() -> None:
    store = StateInMemory(12)
    loops = three(store)
    run(loops, until=30)
    others = loops[1:]
    run(others, until=39.999)
    assert shards(store) == {"replica1": "0-3", "replica2": "4-7", "replica3": "8-11"}
    run(others, until=43)
    assert shards(store) == {"replica2": "4-7", "replica3": "8-11"}, "free, for a third replica is configured"
    assert [kind for loop in others for kind in loop.kinds()[1:]] == [
        (RebalanceCause.STALE_MEMBER_REMOVED, "replica1", False)
    ]


def test_a_replica_that_leaves_gracefully_is_replaced_at_once() -> None:
    store = StateInMemory(12)
    loops = three(store)
    run(loops, until=30)
    old = loops[0]
    old.member.leave()
    assert old.member.releasing == {0, 1, 2, 3}
    for shard in range(4):
        old.member.released(shard)
    old.look(30.1)
    assert old.member.has_left
    assert old.wait == Wait(math.inf, WaitReason.LEFT)
    assert shards(store) == {"replica2": "4-7", "replica3": "8-11"}
    assert old.kinds()[1:] == [(RebalanceCause.LEFT, "replica1", False)]
    new = redeployed(store, loops, 30.2)
    new.look(30.2)
    assert shards(store) == {"replica1": "0-3", "replica2": "4-7", "replica3": "8-11"}


def test_a_rolling_redeployment_moves_no_other_shard() -> None:
    store = StateInMemory(12)
    loops = three(store)
    now = run(loops, until=10)
    for number in range(3):
        loops[number].member.leave()
        for shard in sorted(loops[number].member.shards):
            loops[number].member.released(shard)
        loops[number].look(now)
        loops[number] = Loop(member(f"replica{number + 1}", process=f"new {number}"), store, now + 0.5)
        now = run(loops, until=now + 5, now=now)
        assert shards(store) == {"replica1": "0-3", "replica2": "4-7", "replica3": "8-11"}


def test_a_new_process_waits_while_a_living_one_has_its_name() -> None:
    store = StateInMemory(12)
    first, second = Loop(member("replica1"), store), Loop(member("replica1", process="another"), store)
    run([first, second], until=100)
    assert first.member.shards.keys() == {0, 1, 2, 3}
    assert second.wait.reason is WaitReason.NAME_TAKEN
    assert not second.member.shards


# Stale members and leases


def test_a_stale_entry_that_was_planted_is_removed_by_the_next_that_joins() -> None:
    store = StateInMemory(12)
    store.plant(GroupState((StreamMember("ghost", frozenset(range(6)), WALL_MS),)), now=0)
    loop = Loop(member("replica1"), store)
    loop.look(10)
    assert shards(store) == {"ghost": "0-5", "replica1": "6-9"}
    loop.look(10.001)
    assert shards(store) == {"replica1": "6-9"}


def test_a_member_that_waits_looks_when_another_may_be_stale() -> None:
    store = StateInMemory(1)
    store.plant(GroupState((StreamMember("ghost", frozenset({0}), WALL_MS),)), now=0)
    assert Loop(member("replica1"), store).look(9.99) == Wait(pytest.approx(10.001), WaitReason.NOTHING_FREE)


def test_each_member_is_judged_by_its_own_session_timeout() -> None:
    store = StateInMemory(12)
    Loop(member("replica1", session_timeout=30), store).look(0)
    impatient = Loop(member("replica2", session_timeout=5), store)
    impatient.look(29)
    assert shards(store) == {"replica1": "0-3", "replica2": "4-7"}
    impatient.look(30.1)
    assert shards(store) == {"replica2": "4-7"}


def test_a_member_gives_up_its_shards_when_its_lease_ends_and_continues_with_its_own_entry() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    loop.look(0)
    loop.member.on_time(9.49)
    assert loop.member.shards.keys() == {0, 1, 2, 3}
    loop.member.on_time(9.5)
    assert not loop.member.shards
    assert loop.member.lease is None
    loop.look(60)
    assert loop.member.shards == dict.fromkeys(range(4), 2), "a new epoch fences what was sent before"


def test_the_late_response_to_a_heartbeat_gives_no_lease() -> None:
    store = StateInMemory(12)
    one = member("replica1")
    step = one.on_read(0, WALL_MS, 0, store.read(0))
    assert isinstance(step, Write)
    version = store.plant(step.state, 0)
    assert one.on_written(9.5, 0, version, 0).reason is WaitReason.UNAVAILABLE
    assert not one.shards
    assert one.lease is None


def test_a_member_whose_heartbeat_got_no_response_recognises_its_entry() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    step = loop.member.on_read(0, WALL_MS, 0, store.read(0))
    assert isinstance(step, Write)
    store.plant(step.state, 0)
    assert loop.member.on_unavailable(1, 0) == Wait(1.025, WaitReason.UNAVAILABLE)
    assert not loop.member.shards
    loop.look(1.025)
    assert loop.member.shards == dict.fromkeys(range(4), 2)


def test_a_member_stops_at_once_if_its_entry_has_been_removed() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    loop.look(0)
    other = StreamMember("other", frozenset(range(12)), WALL_MS)
    store.plant(GroupState((other,), epoch=5), now=1)
    assert loop.look(1.1).reason is WaitReason.NOTHING_FREE
    assert not loop.member.shards


def test_a_state_that_is_older_than_the_lease_says_nothing() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    store.plant(GroupState(), 0)
    old = store.read(0)
    loop.look(0)
    assert loop.member.on_read(1, WALL_MS, 0, old) == Wait(1.025, WaitReason.OUTDATED)
    assert loop.member.shards.keys() == {0, 1, 2, 3}


def test_a_member_demands_a_higher_epoch_for_all_its_shards() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    loop.look(0)
    loop.member.raise_epoch(above=70)
    loop.look(0.1)
    assert loop.member.shards == dict.fromkeys(range(4), 71)
    assert store.state.epoch == 71
    loop.look(0.2)
    assert store.version == 2


# Changes of the shares


def test_the_deployed_number_of_replicas_counts_more_than_the_configured_one() -> None:
    store = StateInMemory(12, replicas=2)
    loop = Loop(member("replica1", replicas=3), store)
    loop.look(0)
    assert shards(store) == {"replica1": "0-5"}


def test_surplus_shards_are_released_only_after_they_were_drained() -> None:
    store = StateInMemory(12, replicas=3)
    loops = three(store)
    store.replicas = 4
    loops[0].look(3)
    assert loops[0].member.releasing == {3}
    assert shards(store)["replica1"] == "0-3"
    assert loops[0].member.shards.keys() == {0, 1, 2, 3}
    loops[0].member.released(3)
    assert loops[0].member.shards.keys() == {0, 1, 2}
    loops[0].look(3.1)
    assert shards(store)["replica1"] == "0-2"
    assert loops[0].kinds()[1:] == [(RebalanceCause.SCALED, "replica1", False)]


def test_a_fourth_replica_gets_what_the_others_release() -> None:
    store = StateInMemory(12, replicas=3)
    loops = three(store)
    now = run(loops, until=6)
    store.replicas = 4
    loops.append(Loop(member("replica4"), store, now))
    run(loops, until=12, now=now)
    assert shards(store) == {"replica1": "0-2", "replica2": "4-6", "replica3": "8-10", "replica4": "3,7,11"}


def test_the_others_take_the_shards_of_a_replica_that_was_scaled_away() -> None:
    store = StateInMemory(12, replicas=3)
    loops = three(store)
    store.replicas = 2
    loops[2].member.leave()
    now = run(loops, until=6)
    assert shards(store) == {"replica1": "0-3,8-9", "replica2": "4-7,10-11"}
    assert loops[0].kinds()[1:] == [(RebalanceCause.SCALED, "replica1", True)]
    assert now == 6


def test_new_partitions_are_taken_on_a_heartbeat() -> None:
    store = StateInMemory(3)
    loops = three(store)
    store.shards = 6
    run(loops, until=9)
    assert shards(store) == {"replica1": "0,3", "replica2": "1,4", "replica3": "2,5"}


def test_partitions_that_no_longer_exist_are_given_up_at_once() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    loop.look(0)
    store.shards = 3
    loop.look(1)
    assert loop.member.shards.keys() == {0, 1, 2}
    assert loop.member.releasing == {1, 2}
    assert shards(store) == {"replica1": "0-2"}


def test_a_member_without_a_share_is_not_in_the_object_and_looks_again_later_and_later() -> None:
    store = StateInMemory(2)
    loops = three(store)
    assert shards(store) == {"replica1": "0", "replica2": "1"}
    assert loops[2].wait.reason is WaitReason.NOTHING_FREE
    pauses = []
    for _ in range(8):
        now = loops[2].wait.until
        pauses.append(loops[2].look(now, fraction=0.5).until - now)
    assert pauses == pytest.approx([0.075, 0.15, 0.3, 0.6, 0.75, 0.75, 0.75, 0.75])


def test_leaving_during_a_write_that_gives_shards_takes_none_of_them() -> None:
    store = StateInMemory(12)
    loop = Loop(member("replica1"), store)
    step = loop.member.on_read(0, WALL_MS, 0, store.read(0))
    assert isinstance(step, Write)
    loop.member.leave()
    assert loop.member.on_written(0, 0, store.plant(step.state, 0), 0) == Wait(0, WaitReason.CHANGED)
    assert not loop.member.shards
    loop.look(0)
    assert loop.member.has_left
    assert not store.state.members


def test_the_epoch_survives_when_the_last_member_leaves() -> None:
    store = StateInMemory(4)
    loop = Loop(member("replica1", replicas=1), store)
    loop.look(0)
    loop.member.leave()
    for shard in range(4):
        loop.member.released(shard)
    loop.look(1)
    assert store.state == GroupState((), epoch=1)
    again = Loop(member("replica1", process="next", replicas=1), store)
    again.look(2)
    assert set(again.member.shards.values()) == {2}


def test_pauses_after_conflicts_grow_and_chance_spreads_them() -> None:
    one = member("replica1")
    early = [one.on_conflict(0, 0.0).until for _ in range(7)]
    another = member("replica1")
    late = [another.on_conflict(0, 0.999).until for _ in range(7)]
    assert early == pytest.approx([0.025, 0.05, 0.1, 0.2, 0.4, 0.5, 0.5])
    assert late == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0], rel=0.01)
