"""Checks what must hold in a running cluster at any moment, by reading the servers' own objects.

Logs are compared by their entries: (base, end, content). The content is the batch's own checksum, which covers neither
base nor epoch. Nothing is compared twice, so that frequent checks are cheap.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import trio
from msgspec import Struct, field

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.roles.leader_controller import LeaderController
from tailrace.broker.roles.replica_controller import ReplicaController
from tailrace.broker.spu import Spu
from tailrace.cluster.replication_policy import LIVE, quorum_sizes
from tailrace.cluster.shelf_lookup import earliest_offset
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.controller.key_value.interface import Change, Put
from tailrace.controller.objects.objects import Partition, PartitionResolution, SpuResolution
from tailrace.controller.objects.objects import Spu as RegisteredSpu
from tailrace.controller.state.object_codec import decode
from tailrace.protocol.batches.record_batch import BatchHeader, iterate
from tailrace.protocol.batches.records import Record, read_records
from tailrace.protocol.batches.transaction_markers import marker_of
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import NO_EPOCH, SpuId
from tailrace.protocol.internal.read_shelf import ReadShelfRequest
from tailrace.protocol.internal.report_live_replicas import ReportedPartition
from tailrace.storage.directory.layout import ShelfKey, store_path
from tailrace.storage.directory.promises import Promises

from .flips import flipped_logs
from .history import PartitionHistory
from .shelf_files import is_whole_on
from .world import DATA_DIRECTORY, Machine, World

Key = tuple[UUID, int]
PARTITION_PREFIX = "partition/"
"""The beginning of the keys of partitions in the SC's store."""
NO_STORE = "none"
"""The value in place of a store incarnation that does not exist."""


class InvariantError(AssertionError):
    """One sentence about the invariant that does not hold."""


class Entry(NamedTuple):
    base: int
    end: int
    content: int


class _Batch(NamedTuple):
    base: int
    end: int
    max_timestamp: int
    size: int


class _Committed(Struct):
    """What replicas of one partition showed below their high watermarks."""

    entries: dict[int, Entry] = field(default_factory=dict)
    end: int = 0
    known_end: int = 0
    """The end up to which everything is or was committed, according to any replica or a response to a client."""
    batches: list[_Batch] = field(default_factory=list)
    """The batches, in no order, except for those that were deleted before the first check."""
    leaders: dict[int, int] = field(default_factory=dict)
    """The process that led in each epoch."""


class _Seen(Struct):
    """The last observation of one replica in one process."""

    high_watermark: int = 0
    epoch: int = -1
    checked_end: int = 0


class Invariants:
    def __init__(
        self,
        world: World,
        histories: Sequence[PartitionHistory],
        *,
        topic: str,
        policy: str = LIVE,
        may_lose: bool = False,
        retention: Mapping[str, str] | None = None,
    ) -> None:
        """Prepares the checks.

        The histories are those of `topic`. `policy` decides when a record of the topic is committed. With `may_lose`, a
        replica may be elected that lacks committed records. `retention` has the topic's retention configs if it does
        not keep everything.
        """
        self._world = world
        self._histories = histories
        self._topic = topic
        self._policy = policy
        self._may_lose = may_lose
        self._retention = retention or {}
        self._log_starts: dict[int, int] = {}
        """The largest log start of each partition, if not everything is kept."""
        self._committed: dict[Key, _Committed] = {}
        self._seen: dict[tuple[int, Key], _Seen] = {}
        """The last observation of each replica, by the `id()` of its process object, which `_processes` keeps alive."""
        self._processes: list[Spu] = []
        self._checked_versions: dict[str, int] = {}
        """The last checked version of each object in the store."""
        self._stored: dict[str, Partition] = {}
        self._latest_ms = 0
        """The time of the wall clock that is most ahead."""
        self.elections = 0
        self.unclean_elections = 0
        self._begins_with_epoch: dict[Key, int] = {}
        """The epoch of the last unclean election of each partition that may have lost records."""

    # called by the plan of faults, and while everything settles

    def stored_live(self) -> dict[str, set[int]]:
        """Returns the live replicas of each partition that the SC has stored."""
        return {key: set(map(int, found.status.live_replicas)) for key, found in self._stored.items()}

    def proposed_live(self) -> list[set[int]]:
        """Returns the live replica sets that leaders have proposed, which the SC may store later."""
        proposals = [
            proposal
            for spu in self._world.running_spus().values()
            for replica in spu.replicas
            if isinstance(replica.replication, ReplicaController)
            and (proposal := replica.replication._context.live_replicas._proposed.get(replica.key)) is not None
        ]
        return [{int(spu) for spu, _ in proposal.members} for proposal in proposals if proposal.members]

    def has_caught_up(self, spu: int, before: str, *, by_live_set: bool) -> bool:
        """Whether the SPU again has everything that it may have lost when its machine stopped in that incarnation."""
        machine = self._world.spus[spu]
        incarnation = store_incarnation(machine)
        if incarnation in (before, NO_STORE):
            return False
        if by_live_set:
            return all(
                found.status.live_replicas.get(SpuId(spu)) == incarnation
                for found in self._stored.values()
                if spu in found.spec.replicas
            )
        return not self._is_in_doubt(spu)

    def is_any_in_doubt(self) -> bool:
        return any(map(self._is_in_doubt, self._world.spus))

    def _is_in_doubt(self, spu: int) -> bool:
        """Whether a replica of the SPU may lack what it acknowledged, according to the promises on its disk."""
        promises = Promises(self._world.spus[spu].files.after_kill(), DATA_DIRECTORY)
        return any(_may_lack_some(promises, key) for key in self._held_by(spu))

    def _held_by(self, spu: int) -> list[Key]:
        return [(each.topic_id, each.number) for each in self._stored.values() if spu in each.spec.replicas]

    def log_start(self, partition: int) -> int:
        """Returns the largest log start of the partition, including shelves, of which some replicas may not have
        heard."""
        self.check_retention()
        return self._log_starts.get(partition, 0)

    def unsettled(self, partitions: int) -> str | None:
        """Returns a reason why the cluster is not in order yet, or None; it should have `partitions` partitions."""
        spus = self._world.running_spus()
        serving = [
            number for number, machine in self._world.spus.items() if machine.process and machine.process.is_serving
        ]
        if len(serving) < len(self._world.spus):
            return f"only SPUs {serving} serve"
        if len(self._stored) != partitions:
            return f"there are {len(self._stored)} partitions, not {partitions}"
        for found in self._stored.values():
            if found.spec.copy_sets:
                return f"{found.topic}-{found.number} is being moved: {found.spec}"
            if set(found.status.live_replicas) != set(found.spec.replicas):
                return f"of {found.topic}-{found.number} only {sorted(found.status.live_replicas)} are live"
            if found.status.resolution is not PartitionResolution.ONLINE:
                return f"{found.topic}-{found.number} is {found.status.resolution}: {found.status.reason}"
        ends: dict[Key, set[tuple[int, int, int]]] = {}
        count = 0
        for number, spu in spus.items():
            for replica in spu.replicas:
                count += 1
                where = f"{replica.topic}-{replica.partition} on SPU {number}"
                if replica.offline_reason is not None:
                    return f"{where} is offline: {replica.offline_reason}"
                if replica.high_watermark != replica.log.log_end:
                    return f"{where} has high watermark {replica.high_watermark} and log end {replica.log.log_end}"
                log_start = 0 if self._retention else replica.log.log_start
                ends.setdefault(replica.key, set()).add((log_start, replica.log.log_end, replica.spec.epoch))
        for key, found_ends in ends.items():
            if len(found_ends) > 1:
                return f"replicas of {key} start, end, and are in epochs, {sorted(found_ends)}"
        expected = sum(len(found.spec.replicas) for found in self._stored.values())
        return None if count == expected else f"there are {count} replicas, not {expected}"

    async def check(self) -> None:
        await self._check_stored()
        for number, spu in self._world.running_spus().items():
            if not any(spu is each for each in self._processes):
                self._processes.append(spu)
            for replica in spu.replicas:
                can_be_read = replica.is_open and not self._world.spus[number].files.reads_fail
                if can_be_read and replica.offline_reason is None:
                    self._check_replica(number, spu, replica)
                    self._check_copies(number, replica)
        for partition in self._stored.values():
            self._check_live(partition, partition.status.live_replicas)
        self.check_retention()

    # replicas

    def _check_replica(self, number: int, spu: Spu, replica: Replica) -> None:
        where = f"{replica.topic}-{replica.partition} on SPU {number}"
        committed = self._committed.setdefault(replica.key, _Committed())
        seen = self._seen.setdefault((id(spu), replica.key), _Seen(checked_end=replica.log.log_start))
        high_watermark, epoch = replica.high_watermark, replica.spec.epoch
        begins = self._begins_with_epoch.get(replica.key)
        falls = high_watermark < seen.high_watermark and begins is None
        _hold(not falls, f"the high watermark of {where} fell to {high_watermark}")
        # A compacted log that is truncated after its last records may end before that, until the next batch is
        # appended.
        is_within = high_watermark <= replica.log.log_end or replica.settings.log.compacts
        _hold(is_within, f"the high watermark of {where} lies beyond its log")
        _hold(epoch >= seen.epoch, f"the epoch of {where} fell from {seen.epoch} to {epoch}")
        seen.high_watermark, seen.epoch = high_watermark, epoch
        if replica.is_leader:
            leader = committed.leaders.setdefault(epoch, id(spu))
            _hold(leader == id(spu), f"two processes lead {where} in epoch {epoch}")
        self._check_unsealed(where, replica)
        self._check_synced(where, SpuId(number), replica)
        if replica.is_recovered_leader and replica.topic == self._topic:
            self._check_deleted(where, replica)
        if replica.settings.shelves and replica.topic == self._topic and not self._retention:
            self._check_log_start(where, replica)
        # After an unclean election, followers may have other records than the leader, until they have compared their
        # logs.
        is_right = begins is None or (replica.is_leader and epoch >= begins)
        is_new = seen.checked_end < high_watermark
        if is_new and is_right and not replica.settings.log.compacts and not flipped_logs(self._world.spus[number]):
            seen.checked_end = self._compare(where, committed, replica, seen.checked_end)

    def _check_copies(self, number: int, leader: Replica) -> None:
        """Checks that enough other replicas have what a leader takes for committed.

        Replicas that are offline, or may have lost acknowledged records, count as if they had it.
        """
        stored = self._stored.get(f"{leader.topic}-{leader.partition}")
        leads = stored is not None and (stored.status.leader, stored.status.epoch) == (number, leader.spec.epoch)
        if not leads or stored is None or not leader.is_leader or leader.settings.log.compacts:
            return
        policy = LIVE if leader.is_internal else self._policy
        if policy != LIVE and (stored.spec.copy_sets or leader.spec.copy_sets):
            return  # one copy set may still have to fetch what another one has
        key, end, live = leader.key, leader.high_watermark, stored.status.live_replicas
        lack = []
        for spu, process in self._world.running_spus().items():
            replica = process.replicas.find(*key) if spu in stored.spec.replicas else None
            if replica is not None and replica.is_open and replica.log.log_end < end:
                is_sure = not _may_lack_some(process.storage.promises, key)
                is_live = live.get(SpuId(spu)) == store_incarnation(self._world.spus[spu])
                if is_live if policy == LIVE else is_sure:
                    lack.append(spu)
        sizes = quorum_sizes(policy, len(stored.spec.replicas))
        may_lack = 0 if sizes is None else sizes.stores - sizes.writes
        where = f"{leader.topic}-{leader.partition} on SPU {number}"
        _hold(
            len(lack) <= may_lack,
            f"{where} takes everything before {end} for committed, but SPUs {lack} each lack some of it",
        )

    def on_report(self, reported: ReportedPartition) -> None:
        """Checks the live replicas that a leader proposes, when it sends the report."""
        key = reported.topic_id, reported.partition
        for stored in self._stored.values():
            if (stored.topic_id, stored.number) == key and stored.status.epoch == reported.epoch:
                live = stored.status.live_replicas
                members = {
                    SpuId(each.spu_id): each.incarnation or live.get(SpuId(each.spu_id)) for each in reported.members
                }
                self._check_live(stored, members, "is proposed as")

    def _check_live(self, partition: Partition, live: Mapping[SpuId, str | None], how: str = "is") -> None:
        """Checks that each live replica has what was ever committed, whatever the leader knows about it, because each
        of them may be elected.

        `live` has their store incarnations. A replica that is offline, or whose store has lost something since, does
        not count.
        """
        key, is_internal = (partition.topic_id, partition.number), partition.topic in INTERNAL_TOPICS
        if (self._policy != LIVE and not is_internal) or key in self._begins_with_epoch:
            return
        running = self._world.running_spus()
        found = {spu: replica for spu, process in running.items() if (replica := process.replicas.find(*key))}
        committed = self._committed.setdefault(key, _Committed())
        told = self._histories[partition.number].known_end if partition.topic == self._topic else 0
        ends = (replica.high_watermark for replica in found.values() if replica.is_open)
        committed.known_end = max([committed.known_end, told, *ends])
        for spu, replica in found.items():
            is_live = live.get(SpuId(spu)) == store_incarnation(self._world.spus[spu])
            if is_live and replica.is_open and replica.offline_reason is None and not replica.settings.log.compacts:
                _hold(
                    replica.log.log_end >= committed.known_end,
                    f"SPU {spu} {how} a live replica of {partition.topic}-{partition.number} and has it up to "
                    f"{replica.log.log_end}, but everything before {committed.known_end} was committed",
                )

    def _check_synced(self, where: str, spu: SpuId, replica: Replica) -> None:
        """Checks that a leader does not count its own copy before it is synced, if power may fail on any machine."""
        role, counted = _leader_of(replica), None
        if role is not None and role.core.syncs_before_acknowledging and not replica.is_merging:
            counted = role.core.follower_matched_end(spu)
        elif replica.is_alone and replica.is_leader and replica.syncs_before_acknowledging:
            counted = replica.high_watermark
        is_synced = counted is None or counted <= replica.log.synced_end
        _hold(is_synced, f"{where} counts itself up to {counted}, and has synced up to {replica.log.synced_end}")

    def _check_unsealed(self, where: str, replica: Replica) -> None:
        """Checks that at most two segments are uncommitted: the one that a leader found, and the one that it began."""
        role = _leader_of(replica)
        if role is None or replica.is_merging:
            return
        recovered_end, high_watermark = role.core.recovered_end, replica.high_watermark
        own = [segment for segment in replica.log.segments() if segment.end > max(recovered_end, high_watermark)]
        unsealed = len(own) + (high_watermark < recovered_end)
        _hold(unsealed <= 2, f"{unsealed} segments of {where} are uncommitted")

    def _check_deleted(self, where: str, replica: Replica) -> None:
        """Checks that a leader's log does not have deleted records, unless the leader has a successor already."""
        stored = self._stored.get(f"{replica.topic}-{replica.partition}")
        if stored is None or stored.status.epoch > replica.spec.epoch:
            return
        start, told = replica.log.log_start, self._histories[replica.partition].deleted_for_good
        _hold(start >= told, f"{where} leads, and its log starts at {start}, but records before {told} were deleted")

    def _check_log_start(self, where: str, replica: Replica) -> None:
        """Checks that records missing from the start of a log are on a shelf, or were deleted on request."""
        stored = self._stored.get(f"{replica.topic}-{replica.partition}")
        shelves = () if stored is None else stored.spec.shelves
        gone = max(self._histories[replica.partition].deleted_end, shelves[-1].end if shelves else 0)
        start = replica.log.log_start
        _hold(start <= gone, f"{where} starts at {start}, but only records before {gone} are on shelves or deleted")

    def shelves_survive(self, without: Collection[int]) -> bool:
        """Whether each shelf is complete on the disk of at least one store other than these SPUs."""
        return all(
            any(
                is_whole_on(self._world.spus[store].files, key, max(shelf.base, partition.spec.shelved_from), shelf.end)
                for store in shelf.stores
                if store not in without
            )
            for partition in self._stored.values()
            for shelf in partition.spec.shelves
            if (key := ShelfKey(partition.topic_id, partition.number, shelf.base)) and shelf.base < shelf.end
        )

    async def check_shelves(self) -> int:
        """Checks that each store of a shelf has exactly its records, and returns the number of copies."""
        count = 0
        for partition in self._stored.values():
            key = partition.topic_id, partition.number
            for shelf in partition.spec.shelves:
                for store in shelf.stores:
                    offset = max(shelf.base, partition.spec.shelved_from)
                    where = f"the shelf of {partition.topic}-{partition.number} from {shelf.base} on, on SPU {store},"
                    while offset < shelf.end:
                        offset = await self._check_portion(
                            where, store, ReadShelfRequest(*key, shelf.base, shelf.end, offset)
                        )
                    count += 1
        return count

    async def _check_portion(self, where: str, store: SpuId, request: ReadShelfRequest) -> int:
        """Checks a portion of a shelf, and returns the offset of the next one."""
        answer = await self._world.running_spus()[store].shelf_keeper.serving.read(request)
        _hold(
            answer.error_code == ErrorCode.NONE, f"{where} cannot be read at {request.offset}: {answer.error_message}"
        )
        committed = self._committed[request.topic_id, request.partition].entries
        offset = request.offset
        for _, header in iterate(answer.records):
            entry = Entry(header.base_offset, header.next_offset, header.crc)
            known = committed.get(entry.base, entry)
            _hold(known == entry, f"{where} has {entry}, where a replica had {known}")
            _hold(entry.base <= offset < entry.end, f"{where} lacks what is at {offset}")
            offset = entry.end
        _hold(offset > request.offset, f"{where} has nothing at {offset}")
        return offset

    def _compare(self, where: str, committed: _Committed, replica: Replica, start: int) -> int:
        end = max(start, replica.log.log_start)
        for entry, header in _stamped_entries_of(replica, end, replica.high_watermark):
            if self._retention and entry.base not in committed.entries:
                committed.batches.append(_Batch(entry.base, entry.end, header.max_timestamp, header.size))
            known = committed.entries.setdefault(entry.base, entry)
            _hold(known == entry, f"{where} has {entry} below its high watermark, where another replica has {known}")
            end = entry.end
        committed.end = max(committed.end, end)
        return end

    def check_retention(self) -> None:
        """Checks that records are deleted only after their retention time or size.

        The time is that of the wall clock that is most ahead.
        """
        if not self._retention:
            return
        machines = (*self._world.spus.values(), *self._world.scs.values())
        self._latest_ms = max(self._latest_ms, *(machine.clock.now_ms() for machine in machines))
        replicas = [replica for spu in self._world.running_spus().values() for replica in spu.replicas]
        for key in {replica.key for replica in replicas}:
            batches = self._committed.setdefault(key, _Committed()).batches
            logs = [replica.log for replica in replicas if replica.key == key and replica.is_open]
            starts = {log: self._earliest(key, log.log_start) for log in logs}
            before, newest = self._log_starts.get(key[1], 0), max(starts.values(), default=0)
            if newest > before:
                self._log_starts[key[1]] = newest
                removed = [each.max_timestamp for each in batches if before < each.end <= newest]
                size_bytes = max(
                    log.size_bytes + _size_between(newest, log.segments()[0].base, batches)
                    for log, start in starts.items()
                    if start == newest
                )
                is_old = self._latest_ms - max(removed, default=0) > int(self._retention.get("retention.ms", 1 << 60))
                is_much = size_bytes >= int(self._retention.get("retention.bytes", 1 << 60))
                _hold(is_old or is_much, f"partition {key[1]} lost records up to {newest} before their retention ended")

    def _earliest(self, key: Key, log_start: int) -> int:
        """Returns the earliest offset of a partition whose log starts at `log_start`, including shelves."""
        stored = next((each for each in self._stored.values() if (each.topic_id, each.number) == key), None)
        return log_start if stored is None else earliest_offset(stored.spec, log_start)

    # what the Streaming Controller has stored

    async def _check_stored(self) -> None:
        for entry in (await self._world.store.list(PARTITION_PREFIX)).entries:
            if entry.version != self._checked_versions.get(entry.key):
                self._checked_versions[entry.key] = entry.version
                partition = decode(entry.key, entry.value, entry.version)
                assert isinstance(partition, Partition)
                self._check_partition(partition)

    def on_stored(self, changes: Sequence[Change]) -> None:
        """Checks objects at the moment when they are stored, because a later check would see later states."""
        for change in changes:
            if isinstance(change, Put):
                match decode(change.key, change.value, change.version):
                    case Partition() as partition:
                        self._check_unclean(partition)
                        self._check_partition(partition)
                        self._check_live(partition, partition.status.live_replicas)
                    case RegisteredSpu() as registered:
                        self._check_lease(registered)

    def _check_lease(self, registered: RegisteredSpu) -> None:
        """Checks that an SPU that the SC takes for offline no longer relies on its lease."""
        number, status = registered.spec.id, registered.status
        spu = self._world.running_spus().get(number)
        if status.resolution is SpuResolution.OFFLINE and spu is not None and spu.process == status.incarnation:
            seconds_left = spu.lease.end - trio.current_time()
            _hold(
                seconds_left <= 0,
                f"SPU {number} is offline, but has a lease for another {seconds_left:.3f} s: {status.reason}",
            )

    def _check_unclean(self, partition: Partition) -> None:
        """Records an unclean election.

        If the topic allows it, or nobody else is left, a replica may be elected that may lack records. It then says so.
        """
        before = self._stored.get(f"{partition.topic}-{partition.number}")
        if before is None or not self._may_lose or partition.topic in INTERNAL_TOPICS:
            return
        leader, status = partition.status.leader, partition.status
        if status.epoch == before.status.epoch or not status.was_unclean:
            return
        if before.status.live_replicas.get(leader) != store_incarnation(self._world.spus[leader]):
            key = partition.topic_id, partition.number
            self._histories[partition.number].on_unclean_election(status.epoch)
            self._begins_with_epoch[key] = status.epoch
            self._committed.setdefault(key, _Committed()).entries.clear()
            self.unclean_elections += 1
            for (_, seen_key), seen in self._seen.items():
                if seen_key == key:
                    seen.checked_end = 0

    def _check_partition(self, partition: Partition) -> None:
        name, replicas = f"{partition.topic}-{partition.number}", set(partition.spec.replicas)
        status = partition.status
        live = set(status.live_replicas)
        _hold(live <= replicas, f"{name} has live replicas {live}, but its replicas are {replicas}")
        before = self._stored[name].status.epoch if name in self._stored else -1
        _hold(status.epoch >= before, f"the stored epoch of {name} fell from {before} to {status.epoch}")
        self._stored[name] = partition
        self.elections += status.epoch != before


def store_incarnation(machine: Machine) -> str:
    path = store_path(DATA_DIRECTORY)
    return machine.files.content(path).split()[2].decode() if machine.files.exists(path) else NO_STORE


def entries_of(replica: Replica, start: int, end: int) -> Iterator[Entry]:
    """Yields whole batches that start at `start` or later and end at `end` or earlier."""
    return (entry for entry, _ in _stamped_entries_of(replica, start, end))


def _may_lack_some(promises: Promises, key: Key) -> bool:
    """Whether the store may lack acknowledged records; without a promise, it may have lost its promises."""
    return promises.epoch(key) == NO_EPOCH or promises.is_in_doubt(key)


def _stamped_entries_of(replica: Replica, start: int, end: int) -> Iterator[tuple[Entry, BatchHeader]]:
    while start < end:
        found = replica.log.read(start, 1 << 20, end, at_least_one=True)
        if found is None:
            return
        for _, header in iterate(found.read()):
            if header.base_offset >= start:
                yield Entry(header.base_offset, header.next_offset, header.crc), header
            start = max(start, header.next_offset)


def contents_of(replica: Replica, start: int) -> Iterator[object]:
    """Yields what must be the same in all replicas: all entries, or only those records that compaction must keep.

    Compaction removes records of aborted transactions sooner or later.
    """
    log = replica.log
    if not replica.settings.log.compacts:
        yield from entries_of(replica, start, log.log_end)
        return
    newest: dict[bytes | None, tuple[int, bytes | None]] = {}
    opened: dict[int, list[Record]] = {}
    """The records of open transactions, by producer."""

    def take(records: Iterable[Record]) -> None:
        for each in records:
            if each.key not in newest or newest[each.key][0] < each.offset:
                newest[each.key] = each.offset, each.value

    offset = log.log_start
    while (found := log.read(offset, 1 << 20, log.log_end, at_least_one=True, passes_empty=True)) is not None:
        data = bytes(found.read())
        for position, header in iterate(data):
            offset = header.next_offset
            marker = marker_of(header, data, position)
            if marker is not None:
                records = opened.pop(header.producer_id, [])
                take(records if marker.is_commit else ())
            elif not header.is_control:
                records = list(read_records(data[position : position + header.size]))
                if header.is_transactional:
                    opened.setdefault(header.producer_id, []).extend(records)
                else:
                    take(records)
    yield from sorted((key, *rest) for key, rest in newest.items() if rest[1] is not None)


def _leader_of(replica: Replica) -> LeaderController | None:
    role = replica.replication._role if isinstance(replica.replication, ReplicaController) else None
    return role if isinstance(role, LeaderController) else None


def _size_between(start: int, end: int, batches: Iterable[_Batch]) -> float:
    """Returns the size of these batches in bytes, or inf if some of them were never seen."""
    found = [each for each in batches if start < each.end <= end]
    is_whole = sum(each.end - max(each.base, start) for each in found) >= end - start
    return sum(each.size for each in found) if is_whole else math.inf


def _hold(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantError(sentence)
