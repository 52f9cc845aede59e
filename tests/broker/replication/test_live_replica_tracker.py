import math
from collections.abc import Mapping

from msgspec.structs import replace

from tailrace.broker.replication.follower_progress import FollowerProgress
from tailrace.broker.replication.lag_damping import PATIENCE_SECONDS_MIN
from tailrace.broker.replication.live_replica_tracker import LagLimits, LeaveReason, LiveReplicaTracker
from tailrace.broker.replication.messages import ProposeLiveReplicas
from tailrace.protocol.ids import Epoch, SpuId

A, B, C = map(SpuId, (1, 2, 3))
STORED = {A: "a", B: "b", C: "c"}


def _live(stored: Mapping[SpuId, str] = STORED) -> LiveReplicaTracker:
    limits = LagLimits(records_max=4, seconds_max=10.0)
    live = LiveReplicaTracker(A, "a", Epoch(1), stored, 7, limits=limits, retry_seconds=1.0, now=0.0)
    _propose(live, {}, now=0.0)
    live.on_stored(8, stored)
    return live


def _propose(
    live: LiveReplicaTracker,
    matched: Mapping[SpuId, int],
    *,
    now: float,
    high_watermark: int = 10,
    required_end: int = 0,
) -> ProposeLiveReplicas | None:
    followers = {spu: FollowerProgress(STORED[spu], end) for spu, end in matched.items()}
    return live.propose(
        followers, log_end=12, high_watermark=high_watermark, required_end=required_end, log_start=0, now=now
    )


def test_the_first_proposal_says_that_the_leader_leads() -> None:
    limits = LagLimits(records_max=4, seconds_max=10.0)
    live = LiveReplicaTracker(A, "a", Epoch(1), STORED, 7, limits=limits, retry_seconds=1.0, now=0.0)
    assert live.deadline == -math.inf
    assert _propose(live, {}, now=0.0) == ProposeLiveReplicas(Epoch(1), 7, ((A, ""), (B, ""), (C, "")))


def test_nothing_to_change_is_not_proposed() -> None:
    assert _propose(_live(), {B: 12, C: 10}, now=1.0) is None


def test_a_follower_that_lags_by_too_many_records_leaves() -> None:
    live = _live()
    assert _propose(live, {B: 12, C: 8}, now=1.0) is None
    assert _propose(live, {B: 12, C: 7}, now=1.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "")))
    assert live.lagging == {C: LeaveReason.RECORDS}


def test_a_follower_whose_high_watermark_lags_too_far_leaves() -> None:
    live = _live()
    followers = {B: FollowerProgress("b", 12), C: FollowerProgress("c", 12, high_watermark_lag=5)}
    assert live.propose(followers, log_end=12, high_watermark=10, required_end=0, log_start=0, now=1.0) is not None
    assert live.lagging == {C: LeaveReason.HIGH_WATERMARK}


def test_silence_leaves() -> None:
    live = _live()
    live.on_caught_up(B, 5.0)
    live.on_caught_up(C, 3.0)
    assert _propose(live, {B: 12, C: 12}, now=12.9) is None
    assert live.deadline == 13.0
    assert _propose(live, {B: 12, C: 12}, now=13.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "")))
    assert live.lagging == {C: LeaveReason.SILENCE}


def test_a_follower_known_to_be_offline_leaves_at_once() -> None:
    live = _live()
    live.on_offline(C)
    assert _propose(live, {B: 12}, now=1.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "")))


def test_a_smaller_set_counts_when_it_is_stored() -> None:
    live = _live()
    live.on_offline(C)
    _propose(live, {B: 12}, now=1.0)
    assert live.counting == {A, B, C}
    live.on_stored(8, STORED)
    assert live.counting == {A, B, C}, "that is the version it was proposed from"
    live.on_stored(9, {A: "a", B: "b"})
    assert live.counting == {A, B}


def test_a_larger_set_counts_at_once() -> None:
    live = _live({A: "a"})
    live.on_caught_up(B, 1.0)
    assert _propose(live, {B: 12}, now=1.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "b")))
    assert live.counting == {A, B}
    live.on_stored(9, {A: "a"})
    assert live.counting == {A}, "it was refused, and will not be stored any more"


def test_one_proposal_at_a_time_is_repeated_until_its_version_is_over() -> None:
    live = _live({A: "a"})
    live.on_caught_up(B, 1.0)
    first = _propose(live, {B: 12}, now=1.0)
    live.on_caught_up(C, 1.5)
    assert _propose(live, {B: 12, C: 12}, now=1.5) is None
    assert live.deadline == 2.0
    assert _propose(live, {B: 12, C: 12}, now=2.0) is first
    live.on_stored(9, {A: "a", B: "b"})
    assert _propose(live, {B: 12, C: 12}, now=2.1) == ProposeLiveReplicas(Epoch(1), 9, ((A, ""), (B, ""), (C, "c")))


def test_a_follower_enters_when_it_has_matched_everything_committed() -> None:
    live = _live({A: "a"})
    live.on_caught_up(B, 1.0)
    assert _propose(live, {B: 9}, now=1.0) is None
    assert _propose(live, {B: 10}, now=1.0) is not None


def test_a_follower_enters_when_it_has_matched_what_the_epoch_began_with() -> None:
    """A new leader's high watermark may be smaller than what the last leader acknowledged."""
    live = _live({A: "a"})
    live.on_caught_up(B, 1.0)
    assert _propose(live, {B: 10}, high_watermark=9, required_end=11, now=1.0) is None
    assert _propose(live, {B: 11}, high_watermark=9, required_end=11, now=1.0) is not None


def test_a_follower_with_everything_is_not_silent_until_the_next_append() -> None:
    live = _live()
    for spu in (B, C):
        live.on_caught_up(spu, math.inf)
    assert _propose(live, {B: 12, C: 12}, now=100.0) is None
    assert live.deadline == math.inf
    live.on_appended(13, {B: 12, C: 12}, 200.0)
    live.on_caught_up(B, math.inf)
    assert live.deadline == 210.0
    assert _propose(live, {B: 12, C: 12}, now=209.9) is None
    assert _propose(live, {B: 12, C: 12}, now=210.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "")))


def test_a_follower_that_has_matched_a_late_reported_append_is_not_silent() -> None:
    live = _live()
    for spu in (B, C):
        live.on_caught_up(spu, math.inf)
    live.on_appended(12, {B: 12, C: 11}, 200.0)
    assert _propose(live, {B: 12, C: 12}, now=210.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "")))


def test_a_follower_is_silent_from_the_loss_of_its_link_on() -> None:
    live = _live()
    for spu in (B, C):
        live.on_caught_up(spu, math.inf)
    assert _propose(live, {B: 12, C: 12}, now=49.0) is None
    live.on_link_lost(C, 50.0)
    assert live.deadline == 60.0
    live.on_link_lost(C, 55.0)
    assert live.deadline == 60.0


def test_a_follower_without_a_link_leaves_when_it_lags_by_too_many_records() -> None:
    live = _live()
    live.on_link_lost(C, 1.0, matched_end=8)
    assert _propose(live, {B: 12}, now=1.0) is None
    live.on_link_lost(C, 1.5, matched_end=7)
    live.on_link_lost(C, 1.6)
    assert _propose(live, {B: 12}, now=2.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "")))
    assert live.lagging == {C: LeaveReason.RECORDS}


def test_a_returned_follower_is_judged_by_its_replies() -> None:
    live = _live()
    live.on_link_lost(C, 1.0, matched_end=7)
    assert _propose(live, {B: 12, C: 9}, now=2.0) is None
    live.on_caught_up(C, math.inf)
    live.on_link_lost(C, 3.0)
    assert _propose(live, {B: 12}, now=3.0) is None


def test_no_fewer_are_live_than_must_be() -> None:
    """Nothing is committed without the two that lag, so either may still be elected; the one that lags less stays."""
    limits = LagLimits(records_max=4, seconds_max=10.0)
    live = LiveReplicaTracker(A, "a", Epoch(1), STORED, 7, members_min=2, limits=limits, retry_seconds=1.0, now=0.0)
    live.on_caught_up(C, 5.0)
    assert _propose(live, {}, now=20.0) == ProposeLiveReplicas(Epoch(1), 7, ((A, ""), (C, "")))
    live.on_stored(8, {A: "a", C: "c"})
    assert _propose(live, {}, now=30.0) is None
    assert set(live.lagging) == {C}
    live.on_caught_up(C, math.inf)
    assert _propose(live, {C: 12}, now=31.0) is None
    assert not live.lagging


def test_a_lagging_member_that_stayed_is_in_sync_when_it_knows_what_is_committed() -> None:
    """The follower had all records, so no record shows that it has caught up."""
    limits = LagLimits(records_max=4, seconds_max=10.0)
    stored = {A: "a", B: "b"}
    live = LiveReplicaTracker(A, "a", Epoch(1), stored, 7, members_min=2, limits=limits, retry_seconds=1.0, now=0.0)
    _propose(live, {}, now=0.0)
    live.on_stored(8, stored)
    live.on_caught_up(B, math.inf)

    def left(high_watermark_lag: int) -> set[SpuId]:
        followers = {B: FollowerProgress("b", 12, high_watermark_lag=high_watermark_lag)}
        assert live.propose(followers, log_end=12, high_watermark=12, required_end=0, log_start=0, now=1.0) is None
        return set(live.lagging)

    assert left(0) == set()
    assert left(5) == {B}
    assert left(0) == set()


def test_a_lagging_member_leaves_when_another_enters() -> None:
    limits = LagLimits(records_max=4, seconds_max=10.0)
    stored = {A: "a", C: "c"}
    live = LiveReplicaTracker(A, "a", Epoch(1), stored, 7, members_min=2, limits=limits, retry_seconds=1.0, now=0.0)
    live.on_caught_up(B, math.inf)
    assert _propose(live, {B: 12}, now=20.0) == ProposeLiveReplicas(Epoch(1), 7, ((A, ""), (B, "b")))


def test_fewer_stored_than_must_be_commit_nothing() -> None:
    limits = LagLimits(records_max=4, seconds_max=10.0)
    live = LiveReplicaTracker(A, "a", Epoch(1), {A: "a"}, 7, members_min=2, limits=limits, retry_seconds=1.0, now=0.0)
    live.on_caught_up(B, math.inf)
    assert _propose(live, {B: 12}, now=1.0) is not None
    assert len(live.counting) == 2 and not live.has_enough_stored
    live.on_stored(8, {A: "a", B: "b"})
    assert live.has_enough_stored


def test_a_leader_with_a_new_store_incarnation_names_it() -> None:
    live = _live({A: "before", B: "b"})
    assert _propose(live, {B: 12}, now=1.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, "a"), (B, "")))


def test_another_store_of_a_live_replica_is_named_when_it_has_caught_up() -> None:
    live = _live({A: "a", B: "before"})
    live.on_caught_up(B, 1.0)
    assert _propose(live, {B: 9}, now=1.0) is None
    assert _propose(live, {B: 10}, now=1.0) == ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, "b")))


def test_a_refused_set_is_not_proposed_again_at_once() -> None:
    """The version has changed and the set has not, so the SC has refused the proposal. The SC knows better."""
    live = _live({A: "a"})
    live.on_caught_up(B, 1.0)
    assert _propose(live, {B: 12}, now=1.0) is not None
    live.on_stored(9, {A: "a"})
    assert _propose(live, {B: 12}, now=1.9) is None
    assert _propose(live, {B: 12}, now=2.0) == ProposeLiveReplicas(Epoch(1), 9, ((A, ""), (B, "b")))


def test_a_follower_that_has_not_deleted_as_much_does_not_enter() -> None:
    live = _live({A: "a", B: "b"})
    for now, log_start in ((1.0, 4), (2.0, 5)):
        live.on_caught_up(C, math.inf)
        followers = {C: FollowerProgress("c", 12, log_start=log_start)}
        proposal = live.propose(followers, log_end=12, high_watermark=10, required_end=0, log_start=5, now=now)
        assert (proposal is not None) is (log_start == 5)


def test_that_a_copy_set_has_taken_over_is_proposed_at_once_and_repeated() -> None:
    live = _live()
    said = ProposeLiveReplicas(Epoch(1), 8, ((A, ""), (B, ""), (C, "")), has_taken_over=True)

    def propose(now: float) -> ProposeLiveReplicas | None:
        followers = {spu: FollowerProgress(STORED[spu], 12, 12) for spu in (B, C)}
        return live.propose(
            followers, log_end=12, high_watermark=12, required_end=0, log_start=0, has_taken_over=True, now=now
        )

    assert propose(0.1) == said
    live.on_stored(9, STORED)
    assert propose(0.2) is None and live.deadline == 1.1
    assert propose(1.1) == replace(said, version=9)


def _step(live: LiveReplicaTracker, matched: Mapping[SpuId, int], now: float) -> bool:
    """Proposes, and stores what is proposed. Returns whether the set has changed."""
    proposal = _propose(live, matched, now=now)
    if proposal is None:
        return False
    live.on_stored(live.version + 1, {spu: STORED[spu] for spu, _ in proposal.members})
    return True


def test_bursts_that_a_follower_just_keeps_up_with_change_the_set_twice() -> None:
    """The follower lags by too many records five times a second, and has everything in between."""
    live, changes = _live(), 0
    for step in range(60):
        now = 1.0 + step / 10
        is_behind = step % 2 == 0
        if not is_behind:
            live.on_caught_up(C, now)
        changes += _step(live, {B: 12, C: 7 if is_behind else 12}, now)
    assert changes == 2
    assert live.stored == STORED


def test_a_follower_that_returned_leaves_again_after_it_has_lagged_for_a_while() -> None:
    live = _live()
    assert _step(live, {B: 12, C: 7}, 1.0)
    assert _step(live, {B: 12, C: 12}, 2.0)
    assert live.stored == STORED
    assert not _step(live, {B: 12, C: 7}, 3.5)
    assert not live.lagging
    assert live.deadline == 3.5 + PATIENCE_SECONDS_MIN
    assert not _step(live, {B: 12, C: 7}, 4.4)
    assert _step(live, {B: 12, C: 7}, 4.5)
    assert live.stored == {A: "a", B: "b"}


def test_a_follower_that_left_returns_as_soon_as_it_has_everything() -> None:
    live = _live()
    for spu in (B, C):
        live.on_caught_up(spu, math.inf)
    for now in (1.0, 10.0, 20.0):
        assert not _step(live, {B: 12, C: 12}, now)
        _step(live, {B: 12, C: 7}, now + 0.1)
        _step(live, {B: 12, C: 7}, now + 8.0)
        assert live.stored == {A: "a", B: "b"}
        assert _step(live, {B: 12, C: 12}, now + 8.1)


def test_the_deadline_does_not_lie_in_the_past_while_a_lagging_member_has_to_stay() -> None:
    limits = LagLimits(records_max=4, seconds_max=10.0)
    live = _live()
    assert _step(live, {B: 12, C: 7}, 1.0)
    assert _step(live, {B: 12, C: 12}, 2.0)
    live.use_limits(limits, 3)
    assert not _step(live, {B: 12, C: 7}, 3.5)
    assert not _step(live, {B: 12, C: 7}, 5.0)
    assert set(live.lagging) == {C}
    assert live.deadline > 5.0
