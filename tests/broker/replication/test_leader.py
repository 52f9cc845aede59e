import math
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from replication_store import ListLog

from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.high_watermark import HighWatermark
from tailrace.broker.replication.leader import Leader, LeaderLimits
from tailrace.broker.replication.live_replica_tracker import LagLimits, LiveReplicaTracker
from tailrace.broker.replication.messages import Append, AppendReply, Fenced, Hello, Seal, SealReply
from tailrace.broker.replication.policy import CopySet, CopySetsPolicy, LivePolicy, QuorumPolicy, ReplicationPolicy
from tailrace.broker.replication.ready import (
    AppendEntries,
    EndDoubt,
    ExpectStamped,
    Persist,
    Ready,
    Restamp,
    StorePromise,
    Sync,
    Truncate,
)
from tailrace.broker.replication.sealing import Promise
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

A, B, C = map(SpuId, (1, 2, 3))
EPOCH = Epoch(2)
LIMITS = LeaderLimits(append_bytes_max=2, appends_in_flight_max=2, resend_seconds=0.5, high_watermark_delay_seconds=0.1)


def e(base: int, epoch: int = 1, content: int | None = None) -> Entry:
    return Entry(base, base + 1, Epoch(epoch), content=base if content is None else content)


def _bridge(base: int) -> Entry:
    return Entry(base, base + 1, EPOCH, content=EPOCH, kind=EntryKind.BRIDGE)


class World:
    """A leader, its log, and its latest messages."""

    def __init__(
        self,
        entries: list[Entry],
        *,
        high_watermark: int,
        policy: ReplicationPolicy | None = None,
        in_doubt: bool = False,
        live: tuple[SpuId, ...] = (A, B, C),
        syncs: bool = False,
        was_unclean: bool = False,
        recovered_entries_max: int = 1000,
    ) -> None:
        self.log = ListLog()
        for entry in entries:
            self.log.append(entry)
        limits = LagLimits(records_max=100, seconds_max=10.0)
        self.leader = Leader(
            A,
            EPOCH,
            (A, B, C),
            log=self.log,
            promise=Promise(Epoch(1)),
            high_watermark=HighWatermark(high_watermark),
            in_doubt=in_doubt,
            policy=policy or LivePolicy(),
            live_replicas=LiveReplicaTracker(
                A, "1.1", EPOCH, {spu: f"{spu}.1" for spu in live}, 1, limits=limits, retry_seconds=1.0, now=0.0
            ),
            limits=replace(LIMITS, recovered_entries_max=recovered_entries_max),
            syncs_before_acknowledging=syncs,
            was_unclean=was_unclean,
            now=0.0,
        )

    def ready(self) -> Ready:
        ready = self.leader.take_ready()
        self.carry_out(ready.persist)
        return ready

    def carry_out(self, effects: Sequence[Persist]) -> None:
        for effect in effects:
            match effect:
                case AppendEntries(entries):
                    for entry in entries:
                        self.log.append(entry)
                case ExpectStamped(end, epochs):
                    self.log.expect_stamped(end, EPOCH, epochs)
                case Truncate(end):
                    self.log.cut(end)
                case Restamp(base, end, epoch):
                    self.log.all = [
                        entry.stamped(epoch) if base <= entry.base < end else entry for entry in self.log.all
                    ]

    def produce(self, *entries: Entry, now: float = 0.0) -> Ready:
        for entry in entries:
            self.log.append(entry)
        self.leader.on_appended(now)
        return self.ready()

    def join(self, spu: SpuId, *, high_watermark: int, now: float = 0.0) -> Ready:
        self.leader.on_hello(Hello(EPOCH, spu, f"{spu}.1"), now)
        self.leader.on_seal_reply(
            SealReply(EPOCH, spu, f"{spu}.1", high_watermark, high_watermark, in_doubt=False), now
        )
        self.leader.on_deadline(now)
        return self.ready()

    def reply(
        self,
        spu: SpuId,
        matched_end: int,
        *,
        high_watermark: int = 0,
        incarnation: int = 1,
        missed: bool = False,
        log_start: int = 0,
        now: float = 0.0,
    ) -> Ready:
        name = f"{spu}.{incarnation}"
        reply = AppendReply(EPOCH, spu, name, matched_end, matched_end, high_watermark, missed, log_start)
        self.leader.on_append_reply(reply, now)
        return self.ready()


def _served(*live: SpuId, entries: int = 0) -> World:
    world = World([e(base) for base in range(entries)], high_watermark=entries, live=live or (A, B, C))
    world.ready()
    return world


def _appends(ready: Ready, spu: SpuId) -> list[tuple[int, ...]]:
    return [
        tuple(entry.base for entry in message.entries)
        for receiver, message in ready.send
        if receiver == spu and isinstance(message, Append)
    ]


def test_a_clean_handover_needs_no_recovery_and_leaves_no_bridge() -> None:
    world = World([e(0), e(1)], high_watermark=2)
    assert world.ready().persist == [StorePromise(EPOCH)]
    assert world.leader.is_serving and world.leader.has_sealed_earlier_segments


def test_uncommitted_entries_are_stamped_and_followed_by_a_bridge() -> None:
    world = World([e(0), e(1), e(2)], high_watermark=1)
    assert world.ready().persist == [StorePromise(EPOCH), Restamp(1, 3, EPOCH), AppendEntries((_bridge(3),))]
    assert world.leader.is_serving and not world.leader.has_sealed_earlier_segments
    assert world.leader.recovered_end == 4


def test_a_quorum_is_sealed_before_anything_is_accepted() -> None:
    world = World([e(0), e(1, content=91)], high_watermark=1, policy=QuorumPolicy(3, 2, 2))
    assert world.ready().persist == [StorePromise(EPOCH)]
    assert not world.leader.is_serving
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    assert world.ready().send == [(B, Seal(EPOCH, entries_from=1))]
    newer = Entry(1, 2, Epoch(1), content=1)
    world.leader.on_seal_reply(
        SealReply(EPOCH, B, "2.1", 1, 3, in_doubt=False, entries=(newer.stamped(Epoch(2)), e(2))), 0.0
    )
    assert world.ready().persist == [Truncate(1), ExpectStamped(4), AppendEntries((e(1, 2), e(2, 2), _bridge(3)))]
    assert list(world.log.epochs) == [EpochStart(Epoch(1), 0), EpochStart(EPOCH, 3)]
    assert world.leader.is_serving


def test_a_store_in_doubt_does_not_complete_a_sealing() -> None:
    world = World([], high_watermark=0, policy=QuorumPolicy(3, 2, 2))
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 0, 0, in_doubt=True), 0.0)
    assert not world.leader.is_serving
    world.leader.on_hello(Hello(EPOCH, C, "3.1"), 0.0)
    world.leader.on_seal_reply(SealReply(EPOCH, C, "3.1", 0, 0, in_doubt=False), 0.0)
    assert world.leader.is_serving


def test_a_leader_in_doubt_has_caught_up_once_it_has_recovered() -> None:
    assert EndDoubt() in World([e(0)], high_watermark=0, in_doubt=True).ready().persist


def test_the_example_of_high_watermark_and_live_replicas() -> None:
    """The example of the design's page about replica election: log ends 4, 3 and 2 give high watermark 2, and 3 when
    the last replica leaves. With exclusive ends all numbers are larger by one."""
    world = _served()
    world.join(B, high_watermark=0)
    world.join(C, high_watermark=0)
    world.produce(*(e(base, 2) for base in range(5)))
    world.reply(B, 4)
    world.reply(C, 3)
    assert world.leader.high_watermark == 3
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1", C: "3.1"}, 0.0)
    world.leader.on_link_lost(C, 0.0)
    world.leader.on_offline(C, 0.0)
    ready = world.ready()
    assert ready.propose is not None and dict(ready.propose.members).keys() == {A, B}
    assert world.leader.high_watermark == 3, "not before the smaller set is stored"
    world.leader.on_live_replicas(EPOCH, 3, {A: "1.1", B: "2.1"}, 0.0)
    world.ready()
    assert world.leader.high_watermark == 4


def test_nothing_is_acknowledged_before_the_earlier_segment_is_sealed() -> None:
    world = World([e(0), e(1), e(2)], high_watermark=1, live=(A, B))
    world.ready()
    world.join(B, high_watermark=1)
    world.produce(e(4, 2))
    world.reply(B, 3)
    assert world.leader.high_watermark == 1
    assert not world.leader.has_sealed_earlier_segments
    world.reply(B, 4)
    assert world.leader.high_watermark == 4
    assert world.leader.has_sealed_earlier_segments
    world.reply(B, 5)
    assert world.leader.high_watermark == 5


def test_a_high_watermark_is_sent_with_the_epoch_in_which_it_was_committed() -> None:
    world = World([e(0), e(1), e(2)], high_watermark=1, policy=QuorumPolicy(3, 2, 2))
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    reply = SealReply(EPOCH, B, "2.1", 2, 3, False, (e(2),), high_watermark_epoch=Epoch(1))
    world.leader.on_seal_reply(reply, 0.0)
    world.ready()
    assert _high_watermark_told(world) == (2, 1)
    world.reply(B, 3)
    assert _high_watermark_told(world) == (2, 1), "what follows is not committed before all of it is"
    world.reply(B, 4)
    assert _high_watermark_told(world) == (4, EPOCH)


def test_commits_before_an_unclean_election_say_nothing_about_later_leaders() -> None:
    world = World([e(0)], high_watermark=1, was_unclean=True)
    assert _high_watermark_told(world) == (1, NO_EPOCH)


def _high_watermark_told(world: World) -> tuple[int, int]:
    """Returns the high watermark that a new follower is sent."""
    sent = world.join(C, high_watermark=0).send
    append = next(message for _, message in sent if isinstance(message, Append))
    return append.high_watermark, append.high_watermark_epoch


def test_a_follower_is_sent_everything_from_its_high_watermark_on() -> None:
    world = _served(A, B, entries=4)
    assert _appends(world.join(B, high_watermark=1), B) == [(1, 2)]
    assert _appends(world.reply(B, 3), B) == [(3,)]


def test_a_follower_that_lacks_committed_entries_is_sent_one_message_until_it_replies() -> None:
    """The follower may copy the rest from another follower."""
    world = _served(A, entries=8)
    assert _appends(world.join(B, high_watermark=0), B) == [(0, 1)]
    assert _appends(world.produce(e(8, 2)), B) == []
    assert _appends(world.reply(B, 2), B) == [(2, 3), (4, 5)]


def test_the_window_limits_what_is_in_flight() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    assert _appends(world.produce(*(e(base, 2) for base in range(7))), B) == [(0, 1), (2, 3)]
    assert _appends(world.reply(B, 2), B)[0] == (4, 5)


def test_a_gap_is_closed_once() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2), e(1, 2), e(2, 2))
    assert _appends(world.reply(B, 0, missed=True), B) == [(0, 1), (2,)]
    assert _appends(world.reply(B, 0, missed=True), B) == []


def test_entries_that_do_not_arrive_when_sent_again_are_suspect() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2), e(1, 2))
    assert world.reply(B, 1).suspect_from is None
    assert world.reply(B, 1, missed=True).suspect_from is None
    world.leader.on_deadline(100.0)
    world.ready()
    assert world.reply(B, 1, missed=True, now=100.0).suspect_from == 1
    assert world.produce(e(2, 2), now=100.0).suspect_from is None


def test_a_log_that_cannot_be_read_further_is_suspect() -> None:
    world = _served(A, B)
    world.produce(e(0, 2), e(1, 2), e(2, 2))
    whole, world.log.all = world.log.all, world.log.all[:1]
    ready = world.join(B, high_watermark=0)
    assert _appends(ready, B) == [(0,)]
    assert ready.suspect_from == 1
    world.log.all = whole  # it is repaired
    assert _appends(world.reply(B, 1), B) == [(1, 2)]


def test_followers_at_one_place_get_one_message() -> None:
    world = _served()
    world.join(B, high_watermark=0)
    world.join(C, high_watermark=0)
    (_, to_b), (_, to_c) = world.produce(e(0, 2)).send
    assert to_b is to_c


def test_a_follower_that_has_everything_and_knows_it_is_sent_nothing() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1"}, 0.0)
    world.produce(e(0, 2), now=1.0)
    world.reply(B, 1, now=1.01)
    assert world.leader.deadline == 1.11, "it is to hear of the high watermark"
    world.leader.on_deadline(1.11)
    assert _appends(world.ready(), B) == [()]
    world.reply(B, 1, high_watermark=1, now=1.12)
    world.leader.on_deadline(20.0)
    assert world.ready() == Ready()
    assert world.leader.deadline == math.inf
    assert world.leader.is_settled


def test_a_follower_with_everything_stays_live_although_the_append_is_reported_late() -> None:
    """Recovery reports its appends at the end of a turn, in which a follower may have replied already."""
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1"}, 0.0)
    world.produce(e(0, 2), now=1.0)
    world.reply(B, 1, high_watermark=1, now=1.01)
    world.leader.on_appended(1.01)
    assert world.ready().send == []
    world.leader.on_deadline(20.0)
    assert world.ready().propose is None


def test_a_high_watermark_goes_along_with_entries() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2))
    world.reply(B, 1)
    (_, append), *_ = world.produce(e(1, 2), now=0.05).send
    assert isinstance(append, Append) and append.high_watermark == 1
    world.leader.on_deadline(0.1)
    assert _appends(world.ready(), B) == []


def test_a_high_watermark_is_sent_alone_if_no_entries_follow() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2))
    world.reply(B, 1, now=0.02)
    world.produce(e(1, 2), now=0.08)
    world.reply(B, 2, now=0.09)
    world.leader.on_deadline(0.13)
    assert _appends(world.ready(), B) == []
    assert world.leader.deadline == pytest.approx(0.18)
    world.leader.on_deadline(world.leader.deadline)
    assert _appends(world.ready(), B) == [()]


def test_a_leader_that_stops_tells_of_the_high_watermark_at_once() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2))
    world.leader.on_stopping(0.0)
    assert not world.leader.is_settled
    assert _appends(world.reply(B, 1), B) == [()]
    world.reply(B, 1, high_watermark=1)
    assert world.leader.is_settled


def test_a_leader_that_stops_before_it_knows_its_log_waits_for_no_time_that_is_over() -> None:
    world = World([e(0)], high_watermark=0, policy=QuorumPolicy(3, 2, 2))
    world.ready()
    world.leader.on_stopping(1.0)
    world.leader.on_deadline(1.0)
    assert world.leader.deadline == math.inf
    world.join(B, high_watermark=0, now=2.0)
    world.leader.on_deadline(2.0)
    assert world.leader.deadline > 2.0


def test_a_lost_link_is_no_reason_to_leave_before_it_has_lasted() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1"}, 1.0)
    world.leader.on_link_lost(B, 2.0)
    world.leader.on_deadline(9.9)
    assert world.ready().propose is None
    world.leader.on_deadline(12.0)
    proposed = world.ready().propose
    assert proposed is not None and dict(proposed.members).keys() == {A}


def test_a_follower_without_a_link_leaves_when_it_lags_by_too_many_records() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1"}, 1.0)
    world.produce(e(0), now=1.0)
    world.reply(B, 1, now=1.0)
    world.leader.on_link_lost(B, 2.0)
    assert (world.leader.follower_matched_end(B), world.leader.follower_last_matched_end(B)) == (None, 1)
    assert world.produce(replace(e(1), end=101), now=2.1).propose is None
    proposed = world.produce(e(101), now=2.2).propose
    assert proposed is not None and dict(proposed.members).keys() == {A}


def test_all_live_replicas_have_to_speak_for_anything_to_be_committed() -> None:
    world = World([e(0)], high_watermark=1, live=(A, B))
    assert not world.leader.can_commit
    world.leader.on_hello(Hello(EPOCH, C, "3.1"), 0.0)
    assert not world.leader.can_commit
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    assert world.leader.can_commit
    world.leader.on_link_lost(B, 0.0)
    assert not world.leader.can_commit


def test_as_many_have_to_speak_as_a_quorum_takes() -> None:
    world = World([e(0)], high_watermark=1, policy=QuorumPolicy(stores=3, reads=2, writes=2))
    assert not world.leader.can_commit
    world.leader.on_hello(Hello(EPOCH, C, "3.1"), 0.0)
    assert world.leader.can_commit


def test_a_connected_follower_stays_live_whatever_the_sc_says() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1"}, 1.0)
    world.leader.on_offline(B, 2.0)
    assert world.ready().propose is None
    world.leader.on_link_lost(B, 2.0)
    assert world.ready().propose is not None


def test_a_follower_that_the_sc_has_found_again_may_lose_its_link() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {A: "1.1", B: "2.1"}, 1.0)
    world.leader.on_offline(B, 2.0)
    world.leader.on_online(B)
    world.leader.on_link_lost(B, 2.0)
    assert world.ready().propose is None


def test_unsynced_entries_do_not_count() -> None:
    world = World([], high_watermark=0, live=(A, B), syncs=True)
    assert Sync() in world.ready().persist
    world.join(B, high_watermark=0)
    world.produce(e(0, 2))
    world.reply(B, 1)
    assert world.leader.high_watermark == 0
    world.leader.on_synced(1, 0.0)
    world.ready()
    assert world.leader.high_watermark == 1


def test_recovered_entries_are_synced_only_if_required() -> None:
    """It does not count if `flush.messages` becomes 1 a moment later."""
    world = World([e(0)], high_watermark=0, live=(A, B))
    assert Sync() not in world.ready().persist
    world.leader.syncs_before_acknowledging = True
    world.join(B, high_watermark=0)
    world.reply(B, 2)
    assert world.leader.high_watermark == 0
    world.leader.on_synced(2, 0.0)
    assert world.leader.high_watermark == 2


def test_a_follower_that_lacks_deleted_records_begins_at_the_batch_with_the_log_start() -> None:
    world = World([Entry(base, base + 2, EPOCH, base) for base in (0, 2, 4)], high_watermark=6, live=(A, B))
    world.ready()
    world.log.advance_log_start(3)
    appends = [message for _, message in world.join(B, high_watermark=0).send if isinstance(message, Append)]
    assert [(append.base, append.log_start) for append in appends] == [(2, 3)]


def test_a_deletion_is_announced() -> None:
    world = _served(A, B, entries=2)
    world.join(B, high_watermark=2)
    world.reply(B, 2, high_watermark=2)
    world.log.advance_log_start(1)
    world.leader.on_deleted(1.0)
    world.leader.on_deadline(1.1)
    ((_, append),) = world.ready().send
    assert isinstance(append, Append) and append.log_start == 1


def test_records_are_deleted_for_good_when_all_live_replicas_have_deleted_them() -> None:
    world = _served(A, B, C, entries=2)
    for spu in (B, C):
        world.join(spu, high_watermark=2)
    world.log.advance_log_start(2)
    world.reply(B, 2, high_watermark=2, log_start=2)
    world.reply(C, 2, high_watermark=2, log_start=1)
    assert world.leader.deleted_end == 1
    world.reply(C, 2, high_watermark=2, log_start=2)
    assert world.leader.deleted_end == 2


def test_a_follower_that_may_not_know_of_a_deletion_is_sent_it_again() -> None:
    world = _served(A, B, entries=2)
    world.join(B, high_watermark=2)
    world.log.advance_log_start(1)
    world.reply(B, 2, high_watermark=2)
    assert world.leader._followers[B].resend_at < math.inf
    world.reply(B, 2, high_watermark=2, log_start=1)
    assert world.leader._followers[B].resend_at == math.inf


@pytest.mark.parametrize("is_recovered", [True, False])
def test_a_deletion_of_another_store_is_taken_over_once_it_is_committed_here(is_recovered: bool) -> None:
    world = World([e(0), e(1), e(2)], high_watermark=1, live=(A, B))
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    if is_recovered:
        world.ready()
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 2, 3, False, (), log_start=2), 0.0)
    assert world.ready().delete_to == (2 if is_recovered else None)
    assert world.reply(B, 4, high_watermark=2, log_start=2).delete_to == (None if is_recovered else 2)
    assert world.reply(B, 4, high_watermark=4, log_start=2).delete_to is None


def test_a_deletion_in_progress_during_sealing_is_taken_over() -> None:
    world = _served(A, B, entries=3)
    world.join(B, high_watermark=3)
    assert world.reply(B, 3, high_watermark=3, log_start=2).delete_to == 2
    world.log.advance_log_start(2)
    assert world.reply(B, 3, high_watermark=3, log_start=2).delete_to is None


def test_nothing_is_deleted_on_the_word_of_a_store_that_continues_another_log() -> None:
    world = World([e(base) for base in range(9)], high_watermark=9, live=(A,), was_unclean=True)
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 3, 9, False, (), log_start=6), 0.0)
    assert world.ready().delete_to is None
    assert world.leader._followers[B].log_start == 0


def test_a_deletion_in_another_log_is_not_taken_over() -> None:
    world = World([e(base) for base in range(9)], high_watermark=9, live=(A, B), was_unclean=True)
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 0, 9, False, (), log_start=6), 0.0)
    world.leader.on_deadline(0.0)
    assert world.reply(B, 0, high_watermark=9, log_start=6, missed=True).delete_to is None
    world.reply(B, 9, high_watermark=9)
    world.log.advance_log_start(5)
    assert world.leader.deleted_end == 0
    world.reply(B, 9, high_watermark=9, log_start=5)
    assert world.leader.deleted_end == 5


@pytest.mark.parametrize("is_deletion", [True, False])
def test_a_cached_message_is_not_sent_after_the_log_has_changed(is_deletion: bool) -> None:
    world = _served(A, B, C, entries=2)
    world.join(B, high_watermark=0)
    if is_deletion:
        world.log.advance_log_start(1)
        world.leader.on_deleted(0.0)
    else:
        world.log.all[0] = Entry(0, 1, Epoch(1), 7, EntryKind.COMPACTED)
        world.leader.on_compacted()
    appends = [message for _, message in world.join(C, high_watermark=0).send if isinstance(message, Append)]
    first = appends[0].entries[0]
    assert first.base == 1 if is_deletion else first.content == 7


def test_a_store_that_is_lost_before_it_has_sent_its_entries_does_not_count() -> None:
    world = World([], high_watermark=0, policy=QuorumPolicy(3, 2, 2))
    world.ready()
    for spu, entries in ((B, (e(0), e(1))), (C, (e(0),))):
        world.leader.on_hello(Hello(EPOCH, spu, f"{spu}.1"), 0.0)
        if spu == C:
            world.leader.take_ready()  # B's entries could not be fetched
            world.leader.on_recovery_failed(B, 0.0)
            assert not world.leader.is_serving
        world.leader.on_seal_reply(SealReply(EPOCH, spu, f"{spu}.1", 0, len(entries), False, entries), 0.0)
        assert world.leader.is_serving
    assert world.leader.holders_of(e(0)) == [C]
    assert world.leader.holders_of(e(1)) == []
    assert world.ready().persist == [ExpectStamped(2), AppendEntries((e(0, 2), _bridge(1)))]


def test_missing_entries_are_appended_in_portions_and_the_others_stay() -> None:
    world = World([e(0, content=90)], high_watermark=0, policy=QuorumPolicy(3, 2, 2), recovered_entries_max=2)
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    newer = tuple(e(base, 2).stamped(Epoch(2)) for base in range(5))
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 0, 5, False, newer), 0.0)
    effects = world.leader.take_ready().persist
    stamped = [entry.stamped(EPOCH) for entry in newer]
    assert effects == [
        Truncate(0),
        *(ExpectStamped(2), AppendEntries(tuple(stamped[:2]))),
        *(ExpectStamped(4), AppendEntries(tuple(stamped[2:4]))),
        *(ExpectStamped(6), AppendEntries((stamped[4], _bridge(5)))),
    ]
    world.carry_out(effects[:3])
    world.leader.on_recovery_failed(B, 0.0)
    assert not world.leader.is_serving
    world.leader.on_hello(Hello(EPOCH, C, "3.1"), 0.0)
    other = (e(0), e(1, content=91), e(2, content=92))
    world.leader.on_seal_reply(SealReply(EPOCH, C, "3.1", 0, 3, False, other), 0.0)
    assert world.ready().persist == [AppendEntries((_bridge(2),))]
    assert [entry.content for entry in world.log.all] == [0, 1, EPOCH]


def test_descriptions_of_entries_are_dropped_once_the_entries_are_in_the_log() -> None:
    world = World([], high_watermark=0, policy=QuorumPolicy(3, 2, 2))
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 0, 1, False, (e(0),)), 0.0)
    world.ready()
    assert world.leader.holders_of(e(0)) == [B]
    world.produce(e(2, EPOCH))
    assert world.leader.holders_of(e(0)) == []


def test_entries_that_may_equal_the_own_are_appended_at_once() -> None:
    """Otherwise this store would lack its own entries while the others are asked."""
    world = World([e(0), e(1)], high_watermark=0, policy=QuorumPolicy(3, 2, 2), recovered_entries_max=1)
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    compacted = Entry(0, 1, Epoch(0), 90, EntryKind.COMPACTED)
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 2, 2, False, (compacted, e(1, 0))), 0.0)
    assert [type(effect) for effect in world.ready().persist] == [Truncate, ExpectStamped, AppendEntries]


def test_compacted_entries_that_may_equal_the_own_are_appended_at_once() -> None:
    world = World([e(0), e(1)], high_watermark=0, policy=QuorumPolicy(3, 2, 2), recovered_entries_max=1)
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    compacted = tuple(Entry(base, base + 1, Epoch(0), 90, EntryKind.COMPACTED) for base in range(2))
    world.leader.on_seal_reply(SealReply(EPOCH, B, "2.1", 2, 2, False, compacted), 0.0)
    assert [type(effect) for effect in world.ready().persist] == [Truncate, ExpectStamped, AppendEntries]


def test_no_store_has_more_of_this_log_than_there_is_whatever_it_knows() -> None:
    world = World([e(0), e(1)], high_watermark=0, policy=QuorumPolicy(3, 2, 2))
    world.ready()
    for spu, known in ((B, 0), (C, 9)):
        world.join(spu, high_watermark=known)
    assert world.leader.recovered_end == 3
    assert world.leader.follower_matched_end(C) == 3


def test_after_an_unclean_election_followers_compare_epochs() -> None:
    world = World([e(0), e(1, 2)], high_watermark=2, was_unclean=True)
    world.ready()
    world.leader.on_hello(Hello(EPOCH, B, "2.1"), 0.0)
    epochs = (EpochStart(Epoch(1), 0), EpochStart(Epoch(2), 1))
    assert world.ready().send == [(B, Seal(EPOCH, None, log_start=0, log_end=2, epochs=epochs))]


def test_a_quiet_follower_is_spoken_to() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2), now=0.1)
    world.leader.on_deadline(0.7)
    assert _appends(world.ready(), B) == [()]


def test_messages_of_an_earlier_process_do_not_count() -> None:
    world = _served(A, B)
    world.join(B, high_watermark=0)
    world.produce(e(0, 2))
    world.leader.on_hello(Hello(EPOCH, B, "2.2"), 0.0)
    world.ready()
    world.reply(B, 1, incarnation=1)
    assert world.leader.high_watermark == 0


def test_a_follower_with_a_failed_disk_leaves_at_once() -> None:
    world = _served(A, B, C)
    for spu in (B, C):
        world.join(spu, high_watermark=0)
    world.leader.on_live_replicas(EPOCH, 2, {spu: f"{spu}.1" for spu in (A, B, C)}, 0.0)
    world.produce(e(0, 2))
    world.leader.on_hello(Hello(EPOCH, C, "3.1", has_failed=True), 0.0)
    proposal = world.ready().propose
    assert proposal is not None and proposal.members == ((A, ""), (B, ""))
    world.reply(B, 1)
    assert world.leader.high_watermark == 0, "it is not stored yet"
    world.leader.on_live_replicas(EPOCH, 3, {A: "1.1", B: "2.1"}, 0.0)
    world.ready()
    assert world.leader.high_watermark == 1


def test_a_newer_epoch_ends_it() -> None:
    for speak in (
        lambda leader: leader.on_fenced(Fenced(Epoch(3))),
        lambda leader: leader.on_hello(Hello(Epoch(3), B, "2.1"), 0.0),
        lambda leader: leader.on_live_replicas(Epoch(3), 9, {}, 0.0),
    ):
        world = _served(A, B)
        world.join(B, high_watermark=0)
        world.produce(*(e(base, 2) for base in range(9)))
        speak(world.leader)
        assert world.ready().fenced_by == 3
        assert world.leader.is_over
        assert world.reply(B, 2).send == [], "although there is more"
        assert world.leader.high_watermark == 0


def test_a_follower_of_an_earlier_epoch_is_fenced() -> None:
    world = _served(A, B)
    world.leader.on_hello(Hello(Epoch(1), B, "2.1"), 0.0)
    assert world.ready().send == [(B, Fenced(EPOCH))]
    world.join(B, high_watermark=0)
    world.leader.on_append_reply(AppendReply(Epoch(1), B, "2.1", 1, 1, 0, missed=False), 0.0)
    assert world.ready().send == [(B, Fenced(EPOCH))]
    assert world.leader.follower_matched_end(B) == 0


def test_a_store_outside_the_copy_set_is_ignored() -> None:
    world = _served(A)
    world.leader.on_hello(Hello(EPOCH, SpuId(9), "9.1"), 0.0)
    assert world.ready().send == []


def test_a_copy_set_has_taken_over_when_it_has_everything_whatever_others_know() -> None:
    of_two = QuorumPolicy(2, 2, 2)
    policy = CopySetsPolicy((CopySet(frozenset({A, B}), of_two), CopySet(frozenset({A, C}), of_two)))
    world = World([e(0), e(1)], high_watermark=2, policy=policy)
    world.join(B, high_watermark=2)
    world.join(C, high_watermark=0)
    world.reply(B, 2, high_watermark=2)
    world.reply(C, 1)
    assert world.leader.has_sealed_earlier_segments and not world.leader.has_taken_over
    world.reply(C, 2)
    assert world.leader.has_taken_over


def test_a_copy_set_has_taken_over_only_when_it_has_deleted_as_much() -> None:
    of_two = QuorumPolicy(2, 2, 2)
    policy = CopySetsPolicy((CopySet(frozenset({A, B}), of_two), CopySet(frozenset({A, C}), of_two)))
    world = World([e(0), e(1)], high_watermark=2, policy=policy)
    world.log.advance_log_start(1)
    world.join(C, high_watermark=0)
    world.reply(C, 2)
    assert not world.leader.has_taken_over
    world.reply(C, 2, log_start=1, high_watermark=2)
    assert world.leader.has_taken_over
