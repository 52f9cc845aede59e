"""Bugs that somebody might write, to be planted in servers that are otherwise real: each must be found by some seed."""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pytest
import trio
from crc32c import crc32c
from msgspec import Struct
from msgspec.structs import replace

from tailrace.broker import spu_storage
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replication import leader, quorum_read
from tailrace.broker.replication.entries import Entry, end_of
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.leader import Leader
from tailrace.broker.replication.live_replica_tracker import LiveReplicaTracker
from tailrace.broker.replication.messages import Append, SealReply
from tailrace.broker.replication.policy import LivePolicy, QuorumPolicy
from tailrace.broker.replication.sealing import Sealing
from tailrace.broker.roles.replica_controller import ReplicaController
from tailrace.broker.roles.replica_info_dispatcher import ReplicaInfoDispatcher
from tailrace.broker.shelves import offload_plan
from tailrace.broker.shelves.shelf_filling import ShelfFilling
from tailrace.controller.administration import admin_requests as administration
from tailrace.controller.administration.planned_changes import Planned
from tailrace.controller.connections.connection_manager import ConnectionManager
from tailrace.controller.partitions import copy_sets, election
from tailrace.controller.state.events import LeaseGracePeriodOver
from tailrace.protocol.batches.record_batch import CRC_START
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfResponse
from tailrace.storage.directory import promises
from tailrace.storage.directory.layout import ShelfKey, store_path
from tailrace.storage.directory.promises import PromiseKind, Promises
from tailrace.storage.log import log_deletion
from tailrace.storage.log.log import Log
from tailrace.storage.log.log_disk import LogDisk
from tailrace.storage.producers import producer_snapshots
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments import open_segment
from tailrace.storage.segments.batch_walk import walk
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segments
from tailrace.storage.segments.segment_scrub import SegmentScrub

from .runner import Task
from .scenario import Scenario

NOT_COMPACTED = ("cleanup.policy", "delete")
"""Where nothing is compacted more can be seen to be missing."""

Plant = Callable[[pytest.MonkeyPatch], None]


class PlantedBug(Struct, frozen=True):
    plant: Plant
    policy: str = "live"
    replicas: int = 3
    faults: tuple[str, ...] | None = None
    """What goes wrong in the seeds in which it is looked for; None for everything that can."""
    topic: tuple[tuple[str, str], ...] = ()
    """What the topic's configs are in these."""
    has_groups: bool = False
    """Whether groups are what is looked at."""
    groups: tuple[str, ...] | None = None
    """Of which kinds they are, whatever the seed says."""
    has_erasers: bool | None = None
    """Whether somebody deletes records; None for what the seed says."""
    copies_early: bool = False
    """Whether replicas that lack a few batches copy them from followers."""
    has_quorum_readers: bool | None = False
    """Whether somebody reads from several stores; None for what the seed says."""
    may_shelve: bool = False
    """Whether old segments may be put on shelves, as the seed says."""
    shows_in: Callable[[Scenario], bool] = lambda scenario: True
    """Where else nothing could be seen of it."""
    first_seed: int = 0
    """Where the search begins, for what is rare: near the seed that found it last."""

    def task(self, seed: int) -> Task:
        return Task(
            seed,
            self.policy,
            self.replicas,
            kinds=self.faults,
            topic=(NOT_COMPACTED, *self.topic),
            has_groups=self.has_groups,
            groups=self.groups,
            has_erasers=self.has_erasers,
            copies_early=self.copies_early,
            has_quorum_readers=self.has_quorum_readers,
            may_shelve=self.may_shelve,
        )

    def scenarios(self) -> Iterator[Scenario]:
        """Those in which it may show."""
        return (scenario for seed in count(self.first_seed) if self.shows_in(scenario := self.task(seed).scenario()))

    @property
    def name(self) -> str:
        return self.plant.__name__


# A replica by itself


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    take = Replica._take

    def forgetful(self: Replica, *arguments: Any) -> None:
        take(self, *arguments)
        self.syncs_before_acknowledging = False
        self._commits_at_append = self.is_alone

    patch.setattr(Replica, "_take", forgetful)


def takes_repeated_batches_for_new_ones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStates, "check", lambda self, header: None)


def forgets_producers_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producer_snapshots.ProducerSnapshots, "load", lambda self, *arguments: ProducerStates())


def says_synced_of_what_is_not(patch: pytest.MonkeyPatch) -> None:
    async def sync(self: open_segment.OpenSegment) -> None:
        pass

    patch.setattr(open_segment.OpenSegment, "sync", sync)


def forgets_to_sync_the_directory(patch: pytest.MonkeyPatch) -> None:
    async def sync_directories(self: LogDisk) -> None:
        pass

    patch.setattr(LogDisk, "sync_directories", sync_directories)


def syncs_the_open_segment_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segments, "unsynced", lambda self: [])


def removes_a_segment_before_its_time(patch: pytest.MonkeyPatch) -> None:
    def segments_to_remove(segments: Any, config: Any, **facts: Any) -> int:
        count = original(segments, config, **facts)
        return min(count + 1, len(segments) - 1) if count else 0

    original = log_deletion.segments_to_remove
    patch.setattr(log_deletion, "segments_to_remove", segments_to_remove)


# Promises and epochs


def answers_before_its_promise_is_synced(patch: pytest.MonkeyPatch) -> None:
    async def promise(self: Promises, key: Any, epoch: Any, **_: Any) -> None:
        self._file.append(promises._record(PromiseKind.PROMISED, key, epoch))
        self._epochs[key] = epoch

    patch.setattr(Promises, "promise", promise)


def gives_an_epoch_to_two_leaders(patch: pytest.MonkeyPatch) -> None:
    def elected(partition: Any, leader: Any, spus: Any) -> Any:
        status = elected_cleanly(partition, leader, spus)
        return replace(status, epoch=max(partition.status.epoch, Epoch(0)))

    elected_cleanly = election.elected_cleanly
    patch.setattr(election, "elected_cleanly", elected)


# Live replicas and elections


def counts_a_smaller_live_set_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    def counting(self: LiveReplicaTracker) -> Any:
        return self.stored.keys() if self._proposal is None else {spu for spu, _ in self._proposal.members}

    patch.setattr(LiveReplicaTracker, "counting", property(counting, lambda self, value: None), raising=False)


def elects_whoever_was_live_once(patch: pytest.MonkeyPatch) -> None:
    """Also in another incarnation of its store, which may have lost the end of its log."""
    patch.setattr(election, "is_sure", lambda spu, live, spus: True)


def takes_every_start_for_the_same_store(patch: pytest.MonkeyPatch) -> None:
    """Although the page cache was lost in between."""

    async def take(files: Any, directory: str, promises: Any, *, clean: bool, lacks_replicas: bool, new: Any) -> str:
        is_known = files.exists(store_path(directory))
        return await take_store_incarnation(
            files, directory, promises, clean=is_known, lacks_replicas=lacks_replicas, new=new
        )

    take_store_incarnation = spu_storage.take_store_incarnation
    patch.setattr(spu_storage, "take_store_incarnation", take)


def counts_stores_in_doubt_when_sealing(patch: pytest.MonkeyPatch) -> None:
    def add(self: Sealing, reply: SealReply) -> None:
        self.sure.add(reply.spu)
        self.replies[reply.spu] = reply

    patch.setattr(Sealing, "add", add)


def seals_with_one_store_too_few(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumPolicy, "is_sealed", lambda self, sure, in_doubt: len(sure) >= self.stores - self.writes)


def takes_the_most_that_is_left_for_all_there_was(patch: pytest.MonkeyPatch) -> None:
    """Where all live replicas have lost something, and one that was not live has more."""

    def among_unsure(partition: Any, *arguments: Any) -> Any:
        decision = original(partition, *arguments)
        return replace(decision, status=replace(decision.status, was_unclean=partition.status.was_unclean))

    original = election._among_unsure
    patch.setattr(election, "_among_unsure", among_unsure)


def drops_replicas_before_those_that_follow_have_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(copy_sets, "is_sure", lambda spu, live, spus: True)


def takes_for_lost_whoever_has_not_come_yet(patch: pytest.MonkeyPatch) -> None:
    """An SC that has just started, and cannot know whose lease goes on."""

    async def run(self: ConnectionManager) -> None:
        self._events.add(LeaseGracePeriodOver())
        await original(self)

    original = ConnectionManager.run
    patch.setattr(ConnectionManager, "run", run)


def takes_a_broken_connection_for_the_end_of_a_lease(patch: pytest.MonkeyPatch) -> None:
    def on_end(self: ConnectionManager, peer: Any) -> None:
        original(self, peer)
        if peer.stream.registered is not None and peer.stream.registered.spu not in self._connected:
            self._lose(peer.stream.registered.spu, "its connection broke")

    original = ConnectionManager._on_end
    patch.setattr(ConnectionManager, "_on_end", on_end)


# What logs become


def cuts_to_its_high_watermark_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged by all, and not yet known to be, is lost (KIP-101)."""

    async def attend(self: ReplicaInfoDispatcher, replica: Replica) -> None:
        if replica.key not in self._controllers and not replica.is_alone:
            await replica.log.truncate(replica.high_watermark)
        await original(self, replica)

    original = ReplicaInfoDispatcher.attend
    patch.setattr(ReplicaInfoDispatcher, "attend", attend)


def believes_high_watermarks_of_before_an_unclean_election(patch: pytest.MonkeyPatch) -> None:
    """A leader was elected that lacks some of what was committed then."""

    def compare(self: Follower, seal: Any, log_end: int) -> None:
        self.is_compared = True

    patch.setattr(Follower, "_compare", compare)


def keeps_what_it_has_at_an_offset(patch: pytest.MonkeyPatch) -> None:
    """A follower that does not cut what its leader has otherwise."""
    patch.setattr(Entry, "is_same_as", lambda self, other: (self.base, self.end) == (other.base, other.end))


def recovers_from_its_own_log_alone(patch: pytest.MonkeyPatch) -> None:
    def recovered_log(own_before: Any, start: int, replies: Any, epoch: Any) -> Any:
        return original(own_before, start, list(replies)[:1], epoch)

    original = leader.recovered_log
    patch.setattr(leader, "recovered_log", recovered_log)


# Reads


def lets_a_follower_be_read_to_its_end(patch: pytest.MonkeyPatch) -> None:
    """Also what is not committed, and may be cut; the high watermark that it tells is right."""
    patch.setattr(Replica, "readable_end", property(lambda self: self.log.log_end))


# Acknowledgements


def acknowledges_what_a_majority_of_the_live_has(patch: pytest.MonkeyPatch) -> None:
    def committed_end(self: LivePolicy, matched: Any, live: Any) -> int:
        ends = sorted((matched.get(spu, 0) for spu in live), reverse=True)
        return ends[len(ends) // 2]

    patch.setattr(LivePolicy, "committed_end", committed_end)


def acknowledges_what_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumPolicy, "committed_end", lambda self, matched, live: max(matched.values()))


def tells_producers_that_all_is_well_when_it_is_deposed(patch: pytest.MonkeyPatch) -> None:
    def refuse_waiters(self: Replica, error: Any) -> None:
        if self.waiting_acknowledgements is not None:
            self.waiting_acknowledgements.release(sys.maxsize)
        original(self, error)

    original = Replica.refuse_waiters
    patch.setattr(Replica, "refuse_waiters", refuse_waiters)


def opens_segments_as_they_are_due(patch: pytest.MonkeyPatch) -> None:
    """Whatever is committed of the two that there are."""
    patch.setattr(ReplicaController, "may_roll", lambda self, segment_base: True)


# Deletions


def answers_deletions_before_others_have_deleted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "deleted_end", property(lambda self: self._log.log_start))


# Topics that come back


def leaves_the_leaders_of_a_topic_that_is_brought_back(patch: pytest.MonkeyPatch) -> None:
    """They have ended, and promised the epoch that they would begin again."""
    patch.setattr(administration, "plan_end_of_leaders", lambda *of_topic: Planned(None, ()))


# Bits that flip


def believes_whatever_copy_it_is_given(patch: pytest.MonkeyPatch) -> None:
    """So it looks no further where all batches are sound, and an offset or an epoch is not."""
    patch.setattr(SegmentScrub, "is_proven", property(lambda self: True))


def notes_of_a_segment_what_the_disk_has(patch: pytest.MonkeyPatch) -> None:
    """When it is sealed, and not what was written."""
    real = OpenSegment.seal

    def seal(self: OpenSegment, producers_checksum: int) -> SealedSegment:
        starts = [start for _, _, start in walk(self.reader.log.get(), 0, self.size)]
        self.summary.checksum = crc32c(b"".join(start[:CRC_START] for start in starts))
        return real(self, producers_checksum)

    patch.setattr(OpenSegment, "seal", seal)


# Reading from a quorum


def shows_readers_whatever_may_be_acknowledged(patch: pytest.MonkeyPatch) -> None:
    def all_there_is(newest: Any, sure: Any, tails: Mapping[SpuId, Sequence[Entry]]) -> int:
        return max((end_of(entries, 0) for entries in tails.values()), default=0)

    patch.setattr(quorum_read, "_proven_end", all_there_is)


def lets_readers_ask_one_store_too_few(patch: pytest.MonkeyPatch) -> None:
    def is_readable(self: QuorumPolicy, sure: Collection[SpuId], in_doubt: Any, live: Any) -> bool:
        return len(sure) >= self.reads - 1 and bool(sure)

    patch.setattr(QuorumPolicy, "is_readable", is_readable)


# Copies from followers


def says_that_it_has_what_it_is_about_to_copy(patch: pytest.MonkeyPatch) -> None:
    def begin(self: Follower, append: Append, log_end: int) -> None:
        was_copying = self._copying is not None
        begin_copying(self, append, log_end)
        if self._copying is not None and not was_copying:
            matched_end, self.matched_end = self.matched_end, self._copying.end
            self._reply(log_end, missed=False)
            self.matched_end = matched_end

    begin_copying = Follower._begin_copying
    patch.setattr(Follower, "_begin_copying", begin)


# shelves


def lets_go_what_is_not_on_a_shelf_yet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offload_plan, "_confirmed_end", lambda partition: partition.high_watermark)


def says_of_a_shelf_that_it_is_on_the_disk_before_it_is(patch: pytest.MonkeyPatch) -> None:
    async def finish(self: ShelfFilling, key: ShelfKey, end: int) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(ShelfFilling, "_finish", finish)
    state = ShelfFilling._state

    async def said(self: ShelfFilling, key: ShelfKey) -> FillShelfResponse:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(Log, "synced_end", property(lambda log: log.log_end))
            return await state(self, key)

    patch.setattr(ShelfFilling, "_state", said)


MAJORITY, QUORUM = "majority", "nrw:3,2,2"
POWER_FAILURES = ("lose_power", "lose_power_in_a_write", "kill_spu", "slow_disk")


def _has_shelves(scenario: Scenario) -> bool:
    return scenario.has_shelves


def _has_quorum_readers(scenario: Scenario) -> bool:
    return scenario.has_quorum_readers


PLANTED_BUGS = (
    PlantedBug(acknowledges_before_the_sync, replicas=1, faults=POWER_FAILURES, topic=(("flush.messages", "1"),)),
    PlantedBug(takes_repeated_batches_for_new_ones, replicas=1),
    PlantedBug(forgets_producers_at_a_restart, replicas=1),
    PlantedBug(says_synced_of_what_is_not, replicas=1),
    PlantedBug(forgets_to_sync_the_directory, replicas=1, first_seed=16),
    PlantedBug(
        syncs_the_open_segment_alone,
        replicas=1,
        faults=POWER_FAILURES,
        topic=(("flush.messages", "1"), ("internal.segment.bytes", "200")),
    ),
    PlantedBug(removes_a_segment_before_its_time, replicas=1, shows_in=lambda scenario: scenario.is_retained),
    PlantedBug(answers_before_its_promise_is_synced),
    PlantedBug(gives_an_epoch_to_two_leaders),
    PlantedBug(
        counts_a_smaller_live_set_before_it_is_stored,
        faults=("partition", "cut_link", "partition_one_way"),
        topic=(("min.insync.replicas", "1"), ("lrs.max.lag.ms", "400")),
    ),
    PlantedBug(elects_whoever_was_live_once, faults=("lose_power", "kill_spu", "partition"), first_seed=20),
    PlantedBug(takes_every_start_for_the_same_store, faults=("lose_power", "kill_spu", "partition"), first_seed=20),
    PlantedBug(
        counts_stores_in_doubt_when_sealing,
        "nrw:3,1,3",
        faults=POWER_FAILURES,
        first_seed=90,
    ),
    PlantedBug(seals_with_one_store_too_few, MAJORITY, faults=("kill_spu", "partition")),
    PlantedBug(
        drops_replicas_before_those_that_follow_have_all, first_seed=46, shows_in=lambda scenario: scenario.has_movers
    ),
    PlantedBug(takes_for_lost_whoever_has_not_come_yet, faults=("kill_sc", "kill_sc_in_a_write", "partition")),
    PlantedBug(takes_a_broken_connection_for_the_end_of_a_lease, first_seed=220),
    PlantedBug(
        takes_the_most_that_is_left_for_all_there_was,
        faults=("restart_spu", "lose_power", "lose_disk", "cut_link"),
        shows_in=lambda scenario: scenario.may_lose,
    ),
    PlantedBug(lets_a_follower_be_read_to_its_end),
    PlantedBug(cuts_to_its_high_watermark_at_the_start, first_seed=30),
    PlantedBug(
        believes_high_watermarks_of_before_an_unclean_election,
        first_seed=200,
        shows_in=lambda scenario: scenario.may_lose,
    ),
    PlantedBug(keeps_what_it_has_at_an_offset, first_seed=1000),
    PlantedBug(recovers_from_its_own_log_alone, QUORUM),
    PlantedBug(acknowledges_what_a_majority_of_the_live_has),
    PlantedBug(acknowledges_what_the_leader_has, QUORUM),
    PlantedBug(tells_producers_that_all_is_well_when_it_is_deposed),
    PlantedBug(opens_segments_as_they_are_due, topic=(("segment.ms", "100"),)),
    PlantedBug(answers_deletions_before_others_have_deleted, has_erasers=True),
    PlantedBug(leaves_the_leaders_of_a_topic_that_is_brought_back, shows_in=lambda scenario: scenario.has_meddlers),
    PlantedBug(
        shows_readers_whatever_may_be_acknowledged, MAJORITY, has_quorum_readers=None, shows_in=_has_quorum_readers
    ),
    PlantedBug(lets_readers_ask_one_store_too_few, MAJORITY, has_quorum_readers=None, shows_in=_has_quorum_readers),
    PlantedBug(says_that_it_has_what_it_is_about_to_copy, copies_early=True),
    PlantedBug(lets_go_what_is_not_on_a_shelf_yet, may_shelve=True, shows_in=_has_shelves),
    PlantedBug(
        says_of_a_shelf_that_it_is_on_the_disk_before_it_is,
        faults=("lose_power",),
        may_shelve=True,
        shows_in=_has_shelves,
    ),
    PlantedBug(believes_whatever_copy_it_is_given, shows_in=lambda scenario: scenario.has_flips),
    PlantedBug(
        notes_of_a_segment_what_the_disk_has,
        shows_in=lambda scenario: any(fault.kind == "flip_open_headers" for fault in scenario.faults),
    ),
)
