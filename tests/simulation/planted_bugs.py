"""Bugs that somebody might write, which are planted in otherwise real servers: some seed must detect each of them."""

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
from tailrace.broker.replication import epoch_starts, leader, quorum_read
from tailrace.broker.replication.entries import Entry, end_of
from tailrace.broker.replication.epoch_starts import EpochStart
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
from tailrace.storage.manifest.leader_epochs import LeaderEpochs
from tailrace.storage.producers import producer_snapshots
from tailrace.storage.producers.producer_state import ProducerStates
from tailrace.storage.segments import open_segment
from tailrace.storage.segments.batch_walk import walk
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment
from tailrace.storage.segments.segment_list import Segments
from tailrace.storage.segments.segment_scrub import SegmentScrub

from .outages import OUTAGES
from .runner import Task
from .scenario import Scenario

NOT_COMPACTED = ("cleanup.policy", "delete")
"""A topic config without compaction, which makes more kinds of loss visible."""

Plant = Callable[[pytest.MonkeyPatch], None]


class PlantedBug(Struct, frozen=True):
    plant: Plant
    policy: str = "live"
    replicas: int = 3
    faults: tuple[str, ...] | None = None
    """The kinds of faults in the seeds of the search, or None for all kinds."""
    topic: tuple[tuple[str, str], ...] = ()
    """The topic's configs in these seeds."""
    has_groups: bool = False
    """Whether the seeds test groups."""
    groups: tuple[str, ...] | None = None
    """The kinds of groups, whatever the seed says."""
    has_erasers: bool | None = None
    """Whether clients delete records, or None for the seed's choice."""
    copies_early: bool = False
    """Whether replicas that lack a few batches copy them from followers."""
    has_quorum_readers: bool | None = False
    """Whether there are quorum readers, or None for the seed's choice."""
    may_shelve: bool = False
    """Whether old segments may be put on shelves, as the seed says."""
    shows_in: Callable[[Scenario], bool] = lambda scenario: True
    """The scenarios in which the bug can be visible."""
    first_seed: int = 0
    """The first seed of the search, near the seed that last detected a rare bug."""

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
        """Yields the scenarios in which the bug may be detected."""
        return (scenario for seed in count(self.first_seed) if self.shows_in(scenario := self.task(seed).scenario()))

    @property
    def name(self) -> str:
        return self.plant.__name__


# a single replica


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


def reports_unsynced_records_as_synced(patch: pytest.MonkeyPatch) -> None:
    async def sync(self: open_segment.OpenSegment) -> None:
        pass

    patch.setattr(open_segment.OpenSegment, "sync", sync)


def forgets_to_sync_the_directory(patch: pytest.MonkeyPatch) -> None:
    async def sync_directories(self: LogDisk) -> None:
        pass

    patch.setattr(LogDisk, "sync_directories", sync_directories)


def syncs_only_the_open_segment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segments, "unsynced", lambda self: [])


def removes_a_segment_before_its_time(patch: pytest.MonkeyPatch) -> None:
    def segments_to_remove(segments: Any, config: Any, **facts: Any) -> int:
        count = original(segments, config, **facts)
        return min(count + 1, len(segments) - 1) if count else 0

    original = log_deletion.segments_to_remove
    patch.setattr(log_deletion, "segments_to_remove", segments_to_remove)


# promises and epochs


def responds_before_its_promise_is_synced(patch: pytest.MonkeyPatch) -> None:
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


# live replicas and elections


def counts_a_smaller_live_set_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    def counting(self: LiveReplicaTracker) -> Any:
        return self.stored.keys() if self._proposal is None else {spu for spu, _ in self._proposal.members}

    patch.setattr(LiveReplicaTracker, "counting", property(counting, lambda self, value: None), raising=False)


def lets_followers_enter_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Lets followers enter the live set that lack what the leader's epoch began with. It may be acknowledged, although
    the leader does not know that yet."""

    def propose(self: LiveReplicaTracker, followers: Any, *, required_end: int, **facts: Any) -> Any:
        return original(self, followers, required_end=0, **facts)

    original = LiveReplicaTracker.propose
    patch.setattr(LiveReplicaTracker, "propose", propose)


def elects_replicas_that_lost_their_log_end(patch: pytest.MonkeyPatch) -> None:
    """Elects a replica also with another incarnation of its store, which may have lost the end of its log."""
    patch.setattr(election, "is_sure", lambda spu, live, spus: True)


def keeps_the_store_incarnation_at_every_start(patch: pytest.MonkeyPatch) -> None:
    """Keeps the store incarnation at every start, although the page cache may have been lost before."""

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


def forgets_that_an_election_was_unclean(patch: pytest.MonkeyPatch) -> None:
    """Forgets that an election was unclean, where all live replicas have lost records and another one has more."""

    def among_unsure(partition: Any, *arguments: Any) -> Any:
        decision = original(partition, *arguments)
        return replace(decision, status=replace(decision.status, was_unclean=partition.status.was_unclean))

    original = election._among_unsure_replicas
    patch.setattr(election, "_among_unsure_replicas", among_unsure)


def drops_replicas_before_their_successors_have_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(copy_sets, "is_sure", lambda spu, live, spus: True)


def takes_spus_for_offline_when_the_sc_starts(patch: pytest.MonkeyPatch) -> None:
    """Takes SPUs for offline as soon as the SC starts, although it cannot know whose lease is still valid."""

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


# the content of logs


def truncates_to_its_high_watermark_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """Loses records that all have acknowledged, but that are not yet known to be committed (KIP-101)."""

    async def attend(self: ReplicaInfoDispatcher, replica: Replica) -> None:
        if replica.key not in self._controllers and not replica.is_alone:
            await replica.log.truncate(replica.high_watermark)
        await original(self, replica)

    original = ReplicaInfoDispatcher.attend
    patch.setattr(ReplicaInfoDispatcher, "attend", attend)


def believes_high_watermarks_of_before_an_unclean_election(patch: pytest.MonkeyPatch) -> None:
    """Believes a high watermark, although the elected leader lacks some records below it."""

    def compare(self: Follower, seal: Any, log_end: int) -> None:
        self.is_compared = True

    patch.setattr(Follower, "_compare", compare)


def tells_clients_that_epochs_ended_too_late(patch: pytest.MonkeyPatch) -> None:
    """Tells clients that an epoch ended one offset too late, so that some would keep a record that was truncated."""

    def end_of(self: LeaderEpochs, epoch: int, log_end: int) -> tuple[int, int]:
        known, end = original(self, epoch, log_end)
        return known, min(end + 1, log_end)

    original = LeaderEpochs.end_of
    patch.setattr(LeaderEpochs, "end_of", end_of)


def compares_logs_as_if_epochs_ended_too_late(patch: pytest.MonkeyPatch) -> None:
    """Makes a follower keep one offset too many of what its log has in common with that of a leader elected
    uncleanly."""

    def ends(epochs: Sequence[EpochStart], log_end: int) -> dict[Epoch, int]:
        return {epoch: end if end == log_end else end + 1 for epoch, end in original(epochs, log_end).items()}

    original = epoch_starts._ends
    patch.setattr(epoch_starts, "_ends", ends)


def keeps_records_that_differ_from_the_leaders(patch: pytest.MonkeyPatch) -> None:
    """Makes a follower keep records that differ from its leader's."""
    patch.setattr(Entry, "is_same_as", lambda self, other: (self.base, self.end) == (other.base, other.end))


def recovers_from_its_own_log_alone(patch: pytest.MonkeyPatch) -> None:
    def recovered_log(own_before: Any, start: int, replies: Any, epoch: Any) -> Any:
        return original(own_before, start, list(replies)[:1], epoch)

    original = leader.recovered_log
    patch.setattr(leader, "recovered_log", recovered_log)


# reads


def serves_uncommitted_records_of_a_follower(patch: pytest.MonkeyPatch) -> None:
    """Lets clients read uncommitted records, which may be truncated, although the high watermark in the response is
    right."""
    patch.setattr(Replica, "readable_end", property(lambda self: self.log.log_end))


# acknowledgements


def acknowledges_what_a_majority_of_the_live_replicas_has(patch: pytest.MonkeyPatch) -> None:
    def committed_end(self: LivePolicy, matched: Any, live: Any) -> int:
        ends = sorted((matched.get(spu, 0) for spu in live), reverse=True)
        return ends[len(ends) // 2]

    patch.setattr(LivePolicy, "committed_end", committed_end)


def acknowledges_what_only_the_leader_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumPolicy, "committed_end", lambda self, matched, live: max(matched.values()))


def acknowledges_waiting_requests_when_deposed(patch: pytest.MonkeyPatch) -> None:
    def refuse_waiters(self: Replica, error: Any) -> None:
        if self.waiting_acknowledgements is not None:
            self.waiting_acknowledgements.release(sys.maxsize)
        original(self, error)

    original = Replica.refuse_waiters
    patch.setattr(Replica, "refuse_waiters", refuse_waiters)


def rolls_segments_without_waiting_for_commits(patch: pytest.MonkeyPatch) -> None:
    """Rolls a segment even if two segments are uncommitted already."""
    patch.setattr(ReplicaController, "may_roll", lambda self, segment_base: True)


# deletions


def acknowledges_deletions_before_other_replicas_delete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "deleted_end", property(lambda self: self._log.log_start))


# recreated topics


def does_not_end_the_leaders_of_a_recreated_topic(patch: pytest.MonkeyPatch) -> None:
    """Does not end the leaders, although leaders must have ended and promised the epoch before they lead again."""
    patch.setattr(administration, "plan_end_of_leadership", lambda *of_topic: Planned(None, ()))


# flipped bits


def accepts_unproven_repairs(patch: pytest.MonkeyPatch) -> None:
    """Does not verify repaired segments whose batches are sound, although an offset or an epoch may be corrupt."""
    patch.setattr(SegmentScrub, "is_proven", property(lambda self: True))


def computes_segment_checksums_from_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Computes the checksum of a sealed segment from the disk, and not from what was written."""
    real = OpenSegment.seal

    def seal(self: OpenSegment, *arguments: Any) -> SealedSegment:
        starts = [start for _, _, start in walk(self.reader.log.get(), 0, self.size)]
        self.summary.checksum = crc32c(b"".join(start[:CRC_START] for start in starts))
        return real(self, *arguments)

    patch.setattr(OpenSegment, "seal", seal)


# quorum reads


def shows_quorum_readers_unproven_records(patch: pytest.MonkeyPatch) -> None:
    def all_there_is(newest: Any, sure: Any, tails: Mapping[SpuId, Sequence[Entry]]) -> int:
        return max((end_of(entries, 0) for entries in tails.values()), default=0)

    patch.setattr(quorum_read, "_proven_end", all_there_is)


def makes_quorum_readers_ask_one_store_too_few(patch: pytest.MonkeyPatch) -> None:
    def is_readable(self: QuorumPolicy, sure: Collection[SpuId], in_doubt: Any, live: Any) -> bool:
        return len(sure) >= self.reads - 1 and bool(sure)

    patch.setattr(QuorumPolicy, "is_readable", is_readable)


# copies from followers


def reports_copies_before_it_has_them(patch: pytest.MonkeyPatch) -> None:
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


def deletes_records_before_they_are_on_a_shelf(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offload_plan, "_confirmed_end", lambda partition: partition.high_watermark)


def reports_shelves_as_synced_too_early(patch: pytest.MonkeyPatch) -> None:
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


def _ends_all_spus(scenario: Scenario) -> bool:
    return any(fault.kind == "end_all_spus" for fault in scenario.faults)


PLANTED_BUGS = (
    PlantedBug(acknowledges_before_the_sync, replicas=1, faults=POWER_FAILURES, topic=(("flush.messages", "1"),)),
    PlantedBug(takes_repeated_batches_for_new_ones, replicas=1),
    PlantedBug(forgets_producers_at_a_restart, replicas=1, first_seed=55),
    PlantedBug(reports_unsynced_records_as_synced, replicas=1),
    PlantedBug(forgets_to_sync_the_directory, replicas=1, first_seed=16),
    PlantedBug(
        syncs_only_the_open_segment,
        replicas=1,
        faults=POWER_FAILURES,
        topic=(("flush.messages", "1"), ("internal.segment.bytes", "200")),
    ),
    PlantedBug(removes_a_segment_before_its_time, replicas=1, shows_in=lambda scenario: scenario.is_retained),
    PlantedBug(responds_before_its_promise_is_synced),
    PlantedBug(gives_an_epoch_to_two_leaders),
    PlantedBug(
        counts_a_smaller_live_set_before_it_is_stored,
        faults=("partition", "cut_link", "partition_one_way"),
        topic=(("min.insync.replicas", "1"), ("lrs.max.lag.ms", "400")),
    ),
    PlantedBug(lets_followers_enter_at_the_high_watermark, faults=tuple(OUTAGES), shows_in=_ends_all_spus),
    PlantedBug(elects_replicas_that_lost_their_log_end, faults=("lose_power", "kill_spu", "partition"), first_seed=20),
    PlantedBug(
        keeps_the_store_incarnation_at_every_start, faults=("lose_power", "kill_spu", "partition"), first_seed=20
    ),
    PlantedBug(
        counts_stores_in_doubt_when_sealing,
        "nrw:3,1,3",
        faults=POWER_FAILURES,
        first_seed=90,
    ),
    PlantedBug(seals_with_one_store_too_few, MAJORITY, faults=("kill_spu", "partition")),
    PlantedBug(
        drops_replicas_before_their_successors_have_everything,
        first_seed=46,
        shows_in=lambda scenario: scenario.has_movers,
    ),
    PlantedBug(takes_spus_for_offline_when_the_sc_starts, faults=("kill_sc", "kill_sc_in_a_write", "partition")),
    PlantedBug(takes_a_broken_connection_for_the_end_of_a_lease, faults=("reset_connections", "slow_disk", "freeze")),
    PlantedBug(
        forgets_that_an_election_was_unclean,
        faults=("restart_spu", "lose_power", "lose_disk", "cut_link"),
        shows_in=lambda scenario: scenario.may_lose,
    ),
    PlantedBug(serves_uncommitted_records_of_a_follower),
    PlantedBug(truncates_to_its_high_watermark_at_the_start, first_seed=30),
    PlantedBug(
        believes_high_watermarks_of_before_an_unclean_election,
        first_seed=200,
        shows_in=lambda scenario: scenario.may_lose,
    ),
    PlantedBug(tells_clients_that_epochs_ended_too_late),
    PlantedBug(compares_logs_as_if_epochs_ended_too_late, first_seed=170, shows_in=lambda scenario: scenario.may_lose),
    PlantedBug(keeps_records_that_differ_from_the_leaders, first_seed=1015),
    PlantedBug(recovers_from_its_own_log_alone, QUORUM),
    PlantedBug(acknowledges_what_a_majority_of_the_live_replicas_has),
    PlantedBug(acknowledges_what_only_the_leader_has, QUORUM),
    PlantedBug(acknowledges_waiting_requests_when_deposed),
    PlantedBug(rolls_segments_without_waiting_for_commits, topic=(("segment.ms", "100"),)),
    PlantedBug(acknowledges_deletions_before_other_replicas_delete, has_erasers=True),
    PlantedBug(does_not_end_the_leaders_of_a_recreated_topic, shows_in=lambda scenario: scenario.has_meddlers),
    PlantedBug(
        shows_quorum_readers_unproven_records,
        MAJORITY,
        has_quorum_readers=None,
        shows_in=_has_quorum_readers,
        first_seed=70,
    ),
    PlantedBug(
        makes_quorum_readers_ask_one_store_too_few, MAJORITY, has_quorum_readers=None, shows_in=_has_quorum_readers
    ),
    PlantedBug(reports_copies_before_it_has_them, copies_early=True),
    PlantedBug(deletes_records_before_they_are_on_a_shelf, may_shelve=True, shows_in=_has_shelves),
    PlantedBug(
        reports_shelves_as_synced_too_early,
        faults=("lose_power",),
        may_shelve=True,
        shows_in=_has_shelves,
    ),
    PlantedBug(accepts_unproven_repairs, shows_in=lambda scenario: scenario.has_flips),
    PlantedBug(
        computes_segment_checksums_from_the_disk,
        shows_in=lambda scenario: any(fault.kind == "flip_open_headers" for fault in scenario.faults),
    ),
)
