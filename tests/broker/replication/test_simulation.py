"""Runs the whole replication core in a model: no seed breaks an invariant, and each planted bug is found.

A failure names its seed and policy; `replication_model.run(seed, policy)` replays it.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pytest
import replication_moves
import replication_store
from msgspec.structs import replace
from replication_model import Bugs, Faults, World, run
from replication_moves import Moves
from replication_store import InvariantError
from simulation.planted_bugs import (
    makes_quorum_readers_ask_one_store_too_few,
    reports_copies_before_it_has_them,
    shows_quorum_readers_unproven_records,
)

from tailrace.broker.replication import follower, leader, quorum_read, recovery, rewriting
from tailrace.broker.replication.entries import Entry, EntryLog
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.follower_progress import FollowerProgress
from tailrace.broker.replication.leader import Leader
from tailrace.broker.replication.live_replica_tracker import LiveReplicaTracker
from tailrace.broker.replication.messages import Append, AppendReply, Seal, SealReply
from tailrace.broker.replication.policy import CopySetsPolicy, LivePolicy, QuorumPolicy
from tailrace.broker.replication.quorum_read import Membership, StoreAnswer
from tailrace.broker.replication.ready import Persist
from tailrace.broker.replication.sealing import Promise, Sealing
from tailrace.controller.objects.objects import Partition
from tailrace.controller.partitions import copy_sets
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.storage.directory.checkpoints import SavedHighWatermark

Patch = Callable[[pytest.MonkeyPatch], None]

LIVE, MAJORITY = World(LivePolicy()), World(QuorumPolicy(3, 2, 2))
RESTLESS = Faults(loss=0.3, suspicion=0.06, cut=0.02, kill=0.0, power=0.0, clean_stop=0.0, breaks_off=0.0, link=0.0)
"""Leaders change often and hardly learn what the others have."""
KILLED = Faults(loss=0.1, suspicion=0.05, cut=0.02, kill=0.02, power=0.0, clean_stop=0.0, link=0.0)
RESTLESS_UNCLEAN = Faults(loss=0.15, kill=0.02, power=0.0, clean_stop=0.0, suspicion=0.04)

WORLDS = {
    "live": LIVE,
    "live, two at least": World(LivePolicy(replicas_min=2)),
    "live, synced": World(LivePolicy(), syncs=True),
    "live, at times nobody leads": World(LivePolicy(), hesitates=True),
    "live, two at least, at times nobody leads": World(LivePolicy(replicas_min=2), hesitates=True),
    "live, unclean": World(LivePolicy(), unclean=True),
    "live, unclean, restless": World(LivePolicy(), unclean=True, faults=RESTLESS_UNCLEAN),
    "majority": MAJORITY,
    "majority, restless": World(QuorumPolicy(3, 2, 2), faults=RESTLESS),
    "majority, restless, compacted": World(QuorumPolicy(3, 2, 2), compacts=True, faults=RESTLESS),
    "majority, killed, compacted": World(QuorumPolicy(3, 2, 2), compacts=True, faults=KILLED),
    "majority, synced": World(QuorumPolicy(3, 2, 2), syncs=True),
    "nrw:3,1,3": World(QuorumPolicy(3, 1, 3)),
    "nrw:3,3,1": World(QuorumPolicy(3, 3, 1)),
    "nrw:5,3,3": World(QuorumPolicy(5, 3, 3)),
    "majority, moving": World(QuorumPolicy(3, 2, 2), moves=Moves("majority", sizes=(2, 3, 4))),
    "nrw:3,2,2, moving": World(QuorumPolicy(3, 2, 2), moves=Moves("nrw:3,2,2")),
    "nrw:3,1,3, moving": World(QuorumPolicy(3, 1, 3), moves=Moves("nrw:3,1,3")),
    "live, copying": World(LivePolicy(), copies=True),
    "live, unclean, copying": World(LivePolicy(), unclean=True, copies=True),
    "live, synced, copying": World(LivePolicy(), syncs=True, copies=True),
    "majority, copying": World(QuorumPolicy(3, 2, 2), copies=True),
    "majority, restless, copying": World(QuorumPolicy(3, 2, 2), copies=True, faults=RESTLESS),
    "majority, compacted, copying": World(QuorumPolicy(3, 2, 2), copies=True, compacts=True, faults=KILLED),
    "majority, moving, copying": World(QuorumPolicy(3, 2, 2), copies=True, moves=Moves("majority", sizes=(2, 3, 4))),
    "nrw:5,3,3, copying": World(QuorumPolicy(5, 3, 3), copies=True),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_nothing_breaks_an_invariant(world: World) -> None:
    clusters = [run(seed, world) for seed in range(20)]
    assert sum(len(cluster.truth.acknowledged) for cluster in clusters) > 50, "hardly anything happened"
    assert sum(cluster.copied > 0 for cluster in clusters) >= 3 * world.copies, "hardly anything was copied"


def test_a_seed_repeats_itself() -> None:
    one, other = run(7, MAJORITY), run(7, MAJORITY)
    assert one.truth.committed == other.truth.committed
    assert [store.log.all for store in one.stores.values()] == [store.log.all for store in other.stores.values()]


# planted bugs


def _counts_a_smaller_set_at_once(patch: pytest.MonkeyPatch) -> None:
    def counting(self: LiveReplicaTracker) -> Any:
        return self.stored.keys() if self._proposal is None else {spu for spu, _ in self._proposal.members}

    patch.setattr(LiveReplicaTracker, "counting", property(counting, lambda self, value: None), raising=False)


def _counts_a_larger_set_only_when_told(patch: pytest.MonkeyPatch) -> None:
    counting = property(lambda self: self.stored.keys(), lambda self, value: None)
    patch.setattr(LiveReplicaTracker, "counting", counting, raising=False)


def _forgets_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    def accepts(self: Follower, epoch: int) -> bool:
        if not self._promise.refuses(epoch):  # type: ignore[arg-type]
            self._enter_epoch(epoch)  # type: ignore[arg-type]
        self.deadline = math.inf
        return True

    patch.setattr(Follower, "_accepts", accepts)


def _promises_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Promise, "renew", lambda self, epoch: False)


def _trusts_stores_in_doubt(patch: pytest.MonkeyPatch) -> None:
    def add(self: Sealing, reply: SealReply) -> None:
        self.sure.add(reply.spu)
        self.replies[reply.spu] = reply

    patch.setattr(Sealing, "add", add)


def _believes_log_ends_of_earlier_epochs(patch: pytest.MonkeyPatch) -> None:
    """Acknowledges although the earlier segment is not the same on all stores."""
    on_seal_reply = Leader.on_seal_reply

    def believing(self: Leader, reply: SealReply, now: float) -> None:
        on_seal_reply(self, reply, now)
        link = self._followers.get(reply.spu)
        if link is not None and link.matched_end is not None:
            link.matched_end = link.sent_end = min(reply.log_end, self._log.log_end)

    patch.setattr(Leader, "on_seal_reply", believing)


def _takes_the_high_watermark_unmatched(patch: pytest.MonkeyPatch) -> None:
    on_append = Follower.on_append

    def taking(self: Follower, append: Append) -> None:
        on_append(self, append)
        if not self._promise.refuses(append.epoch) and not self._ready.persist:
            self._high_watermark.advance(min(append.high_watermark, self._log.log_end), append.epoch)

    patch.setattr(Follower, "on_append", taking)


def _recovers_the_longest_log(patch: pytest.MonkeyPatch) -> None:
    def longest(start: int, stores: Any, epoch: Any) -> list[Entry]:
        chosen = max(stores, key=lambda entries: entries[-1].end if entries else 0)
        return merge_stamped(start, [chosen], epoch)

    merge_stamped = recovery.merge_stamped

    patch.setattr(recovery, "merge_stamped", longest)


def _leaves_stamps_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """Lets recovered and acknowledged entries keep the epoch of a lost leader."""

    def unstamped(start: int, stores: Any, epoch: Any) -> list[Entry]:
        held = {(entry.base, entry.content): entry for entries in stores for entry in entries}
        return [held.get((entry.base, entry.content), entry) for entry in merge_stamped(start, stores, epoch)]

    def changes_to_match(*args: Any, **options: Any) -> Any:
        return rewriting.changes_to_match(*args, **{**options, "epoch": None})

    merge_stamped = recovery.merge_stamped
    patch.setattr(recovery, "merge_stamped", unstamped)
    patch.setattr(leader, "changes_to_match", changes_to_match)


def _reads_on_after_a_difference(patch: pytest.MonkeyPatch) -> None:
    def agrees(self: Any, taken: Entry) -> bool:
        while self.entry is not None and self.entry.base < taken.end:
            self.entry = next(self._rest, None)
        return True

    patch.setattr(recovery._Reader, "agrees_with", agrees)


def _reads_stores_that_missed_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "has_committed_prefix", lambda committed, start, entries: True)


def _seals_with_one_store_fewer(patch: pytest.MonkeyPatch) -> None:
    def is_sealed(self: QuorumPolicy, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        return len(sure) >= self.stores - self.writes or len(sure) + len(in_doubt) == self.stores

    patch.setattr(QuorumPolicy, "is_sealed", is_sealed)


def _sends_nothing_to_followers_that_do_not_know(patch: pytest.MonkeyPatch) -> None:
    """Sends nothing to a follower that has everything but may not know that it is committed."""
    on_append_reply, send_append = Leader.on_append_reply, Leader._send_append

    def on_reply(self: Leader, reply: AppendReply, now: float) -> None:
        on_append_reply(self, reply, now)
        link = self._followers.get(reply.spu)
        if link is not None and reply.matched_end == self._log.log_end:
            link.resend_at = math.inf

    def send(self: Leader, spu: SpuId, link: FollowerProgress, append: Append, end: int, now: float) -> None:
        send_append(self, spu, link, append, end, now)
        if not append.entries:
            link.resend_at = math.inf

    patch.setattr(Leader, "on_append_reply", on_reply)
    patch.setattr(Leader, "_send_append", send)


def _takes_gaps_for_holes(patch: pytest.MonkeyPatch) -> None:
    def recovered_log(own_before: Any, start: int, replies: Any, epoch: Any) -> recovery.RecoveredLog:
        ignorant = [replace(reply, high_watermark=start, log_start=0) for reply in replies]
        return recovery.recovered_log(own_before, start, ignorant, epoch)

    patch.setattr(leader, "recovered_log", recovered_log)


def _keeps_entries_in_gaps(patch: pytest.MonkeyPatch) -> None:
    def is_same_as(self: Entry, other: Entry) -> bool:
        return (self.base, self.end, self.content) == (other.base, other.end, other.content) or self.may_equal(other)

    def changes_to_match(own: Any, log_end: int, wanted: Any, **options: Any) -> Iterator[Persist]:
        bases = {entry.base for entry in wanted}
        kept = [entry for entry in own if entry.base in bases]
        log_end = kept[-1].end if kept else log_end
        yield from rewriting.changes_to_match(kept, log_end, wanted, **options)

    patch.setattr(Entry, "is_same_as", is_same_as)
    patch.setattr(follower, "changes_to_match", changes_to_match)


def _starts_with_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    def at_start(log: EntryLog, checkpoint: int) -> int:
        return min(max(checkpoint, log.log_start), log.log_end)

    patch.setattr(replication_store, "high_watermark_at_start", at_start)


def _trusts_high_watermarks_from_before_an_unclean_election(patch: pytest.MonkeyPatch) -> None:
    def compare(self: Follower, seal: Seal, log_end: int) -> None:
        self.is_compared = True

    patch.setattr(Follower, "_compare", compare)


def _lets_the_live_set_shrink_to_one(patch: pytest.MonkeyPatch) -> None:
    """Lets the set shrink to the last replica in sync, which may lose what the others still have."""
    patch.setattr(LiveReplicaTracker, "_members_min", property(lambda self: 1, lambda self, value: None), raising=False)


def _keeps_records_that_another_store_has_deleted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_take_over_log_start", lambda self: None)


def _reports_deletions_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "deleted_end", property(lambda self: self._log.log_start))


def _takes_deleted_records_for_the_leaders(patch: pytest.MonkeyPatch) -> None:
    """Takes deleted records for the leader's, even after an unclean election."""
    compare = Follower._compare

    def believing(self: Follower, seal: Seal, log_end: int) -> None:
        compare(self, seal, log_end)
        self.matched_end = max(self.matched_end, min(self._log.log_start, log_end))

    patch.setattr(Follower, "_compare", believing)


def _takes_stamps_of_recovery_for_epoch_starts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Follower, "_expect_stamped", lambda self, append: None)


def _trusts_stamps_of_earlier_recoveries(patch: pytest.MonkeyPatch) -> None:
    """Trusts stamps of earlier recoveries if the leader itself has recovered nothing."""
    expect_stamped = Follower._expect_stamped

    def expect(self: Follower, append: Append) -> None:
        if append.entries[:1] and append.entries[0].epoch == append.epoch:
            expect_stamped(self, append)

    patch.setattr(Follower, "_expect_stamped", expect)


def _trusts_stamps_of_other_stores(patch: pytest.MonkeyPatch) -> None:
    """Trusts the stamps of another store where the leader's log has other stamps."""
    expect_stamped = Follower._expect_stamped

    def expect(self: Follower, append: Append) -> None:
        if self._is_worth_copying(append):
            self._stamped_end_noted = append.stamped_end
        else:
            expect_stamped(self, append)

    patch.setattr(Follower, "_expect_stamped", expect)


def _seals_the_new_copy_set_alone(patch: pytest.MonkeyPatch) -> None:
    def is_sealed(self: CopySetsPolicy, sure: Collection[SpuId], in_doubt: Collection[SpuId]) -> bool:
        members, quorum = self.sets[-1].members, self.sets[-1].quorum
        return quorum.is_sealed(members.intersection(sure), members.intersection(in_doubt))

    patch.setattr(CopySetsPolicy, "is_sealed", is_sealed)


def _drops_the_earlier_copy_set_at_once(patch: pytest.MonkeyPatch) -> None:
    """Drops the earlier copy set before the new one has what was committed there."""

    def next_copy_set(partition: Partition, *args: Any, has_taken_over: bool) -> Partition:
        return copy_sets.next_copy_set(partition, *args, has_taken_over=len(partition.spec.copy_sets) > 1)

    patch.setattr(replication_moves, "next_copy_set", next_copy_set)


def _believes_that_the_copy_set_has_what_others_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_copy_set_has_all", lambda self, matched_end: self.has_sealed_earlier_segments)


def _counts_replicas_that_were_just_added(patch: pytest.MonkeyPatch) -> None:
    def committed_end(self: CopySetsPolicy, matched: Mapping[SpuId, int], live: Collection[SpuId]) -> int:
        return self.sets[-1].quorum.committed_end(matched, live)

    patch.setattr(CopySetsPolicy, "committed_end", committed_end)


def _compares_compacted_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Follower, "_end_known_to_later_leaders", lambda self, append: 0)


def _forgets_when_the_high_watermark_was_committed(patch: pytest.MonkeyPatch) -> None:
    def write_down(self: replication_store.Store) -> None:
        self.checkpoint = SavedHighWatermark(self.high_watermark.value, NO_EPOCH)

    patch.setattr(replication_store.Store, "write_down_high_watermark", write_down)


def _readers_take_the_smaller_epoch(patch: pytest.MonkeyPatch) -> None:
    def upside_down(start: int, stores: Collection[Sequence[Entry]]) -> list[Entry]:
        flipped = [[entry.stamped(Epoch(-1 - entry.epoch)) for entry in each] for each in stores]
        return [entry.stamped(Epoch(-1 - entry.epoch)) for entry in merged_entries(start, flipped)]

    merged_entries = recovery.merged_entries
    patch.setattr(quorum_read, "merged_entries", upside_down)


def _readers_count_copies_under_any_stamps(patch: pytest.MonkeyPatch) -> None:
    """Counts W copies of an entry, whichever leaders have stamped them."""

    def counted_end(newest: Membership, sure: Sequence[StoreAnswer], tails: Mapping[SpuId, Sequence[Entry]]) -> int:
        ends = [0]
        for entry in chain.from_iterable(tails.values()):
            holders = [each.spu for each in sure if any(entry.is_same_as(other) for other in tails[each.spu])]
            ends.append(newest.policy.committed_end(dict.fromkeys(holders, entry.end), ()))
        return max(ends)

    patch.setattr(quorum_read, "_proven_end", counted_end)


def _readers_take_for_final_what_a_leader_may_change(patch: pytest.MonkeyPatch) -> None:
    def is_final(membership: Membership, answers: Collection[StoreAnswer]) -> bool:
        return membership.live_replicas <= {each.spu for each in answers}

    patch.setattr(quorum_read, "_is_final", is_final)


def _readers_ask_some_of_the_live_replicas(patch: pytest.MonkeyPatch) -> None:
    def is_final(membership: Membership, answers: Collection[StoreAnswer]) -> bool:
        return not membership.has_leader and all(each.promised <= membership.epoch for each in answers)

    patch.setattr(quorum_read, "_is_final", is_final)


SEEDS_MAX = 600

IN_THE_CORE: Mapping[Patch, World] = {
    _counts_a_smaller_set_at_once: LIVE,
    _counts_a_larger_set_only_when_told: LIVE,
    _forgets_the_epoch_check: LIVE,
    _promises_nothing: MAJORITY,
    _trusts_stores_in_doubt: WORLDS["nrw:3,1,3"],
    _believes_log_ends_of_earlier_epochs: LIVE,
    _takes_the_high_watermark_unmatched: MAJORITY,
    _recovers_the_longest_log: MAJORITY,
    _leaves_stamps_as_they_are: WORLDS["majority, restless"],
    _reads_on_after_a_difference: WORLDS["nrw:3,1,3"],
    _reads_stores_that_missed_commits: MAJORITY,
    _seals_with_one_store_fewer: WORLDS["nrw:3,1,3"],
    _sends_nothing_to_followers_that_do_not_know: LIVE,
    _lets_the_live_set_shrink_to_one: WORLDS["live, two at least"],
    _takes_gaps_for_holes: MAJORITY,
    _keeps_entries_in_gaps: MAJORITY,
    _starts_with_the_checkpoint: MAJORITY,
    _trusts_high_watermarks_from_before_an_unclean_election: WORLDS["live, unclean"],
    _keeps_records_that_another_store_has_deleted: LIVE,
    _reports_deletions_at_once: LIVE,
    _takes_deleted_records_for_the_leaders: WORLDS["live, unclean"],
    _takes_stamps_of_recovery_for_epoch_starts: MAJORITY,
    _trusts_stamps_of_earlier_recoveries: WORLDS["nrw:3,1,3, moving"],
    _trusts_stamps_of_other_stores: WORLDS["majority, moving, copying"],
    reports_copies_before_it_has_them: WORLDS["live, copying"],
    _seals_the_new_copy_set_alone: WORLDS["majority, moving"],
    _drops_the_earlier_copy_set_at_once: WORLDS["majority, moving"],
    _believes_that_the_copy_set_has_what_others_committed: WORLDS["majority, moving"],
    _counts_replicas_that_were_just_added: WORLDS["majority, moving"],
    _compares_compacted_entries: WORLDS["majority, restless, compacted"],
    _forgets_when_the_high_watermark_was_committed: WORLDS["majority, killed, compacted"],
    _readers_take_the_smaller_epoch: MAJORITY,
    shows_quorum_readers_unproven_records: WORLDS["majority, restless"],
    _readers_count_copies_under_any_stamps: WORLDS["majority, restless, compacted"],
    makes_quorum_readers_ask_one_store_too_few: MAJORITY,
    _readers_take_for_final_what_a_leader_may_change: WORLDS["live, two at least"],
    _readers_ask_some_of_the_live_replicas: WORLDS["live, at times nobody leads"],
}
"""The bugs in the core, each with a world in which it does harm soon."""

FIRST_SEED: Mapping[Patch | str, int] = {
    _leaves_stamps_as_they_are: 100,
    _takes_stamps_of_recovery_for_epoch_starts: 150,
    _recovers_the_longest_log: 450,
    _reads_stores_that_missed_commits: 350,
    _forgets_the_epoch_check: 150,
    _keeps_entries_in_gaps: 770,
    _takes_the_high_watermark_unmatched: 150,
    _starts_with_the_checkpoint: 180,
    _trusts_stamps_of_earlier_recoveries: 630_300,
    _forgets_when_the_high_watermark_was_committed: 850,
    _trusts_stamps_of_other_stores: 130,
    reports_copies_before_it_has_them: 100,
    _seals_the_new_copy_set_alone: 170,
    _drops_the_earlier_copy_set_at_once: 70,
    _believes_that_the_copy_set_has_what_others_committed: 200,
    _readers_count_copies_under_any_stamps: 100,
    "controller_ignores_versions": 130,
    "kill_ends_doubt": 300,
    "election_shrinks_live_set": 700,
}
"""The first seeds that find rare bugs."""

AROUND_IT: Mapping[str, World] = {
    "cuts_to_high_watermark_at_start": LIVE,
    "forgets_promise": MAJORITY,
    "controller_ignores_incarnations": LIVE,
    "controller_ignores_versions": LIVE,
    "election_shrinks_live_set": WORLDS["live, two at least"],
    "kill_ends_doubt": WORLDS["nrw:3,1,3"],
    "sync_is_skipped": WORLDS["live, synced"],
}


def _seed_that_finds(world: World, bugs: Bugs | None = None, *, first_seed: int = 0) -> int | None:
    for seed in range(first_seed, first_seed + SEEDS_MAX):
        try:
            run(seed, world, bugs=bugs)
        except InvariantError:
            return seed
    return None


@pytest.mark.slow
@pytest.mark.parametrize("plant", IN_THE_CORE, ids=lambda plant: plant.__name__.strip("_"))
def test_a_bug_in_the_core_is_found(plant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    world = IN_THE_CORE[plant]
    plant(monkeypatch)
    seed = _seed_that_finds(world, first_seed=FIRST_SEED.get(plant, 0))
    assert seed is not None
    monkeypatch.undo()
    run(seed, world)  # without the bug, the seed passes


@pytest.mark.slow
@pytest.mark.parametrize("bug", AROUND_IT)
def test_a_bug_around_it_is_found(bug: str) -> None:
    world = AROUND_IT[bug]
    seed = _seed_that_finds(world, Bugs(**{bug: True}), first_seed=FIRST_SEED.get(bug, 0))
    assert seed is not None
    run(seed, world)  # without the bug, the seed passes
