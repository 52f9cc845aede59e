"""The Partition Controller: gives each partition a leader, its replicas and its shelves.

It decides from the whole state and never from the change alone: the same state gives the same status, whatever event
caused the check. So if a write loses its compare-and-set, the same decision is simply made again.

A partition counts only while its topic exists. The partitions of a deleted topic stay in the store unchanged, so that
their epochs do not fall if the topic is brought back.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import cache

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import effective_value
from tailrace.cluster.replication_policy import LIVE, policy_of
from tailrace.controller.objects.objects import Partition, PartitionResolution, Spu, SpuGroup, Topic
from tailrace.controller.spus.spu_selection import accepting_spus, is_leaving, is_unwanted, with_racks
from tailrace.controller.state.actions import (
    Action,
    AddPartition,
    AskLogEnd,
    AwaitLeader,
    DeletePartition,
    Put,
    UpdatePartition,
)
from tailrace.controller.state.events import (
    FailedReplica,
    LeaderSilent,
    LiveReplicasReported,
    LogEndsReported,
    ReplicaFailed,
    ReplicaOpened,
    ShelvesReported,
    SpuConnected,
    SpuResponded,
)
from tailrace.controller.state.local_store import Change, LocalStore, PartitionKey
from tailrace.controller.state.observed import Observed, PartitionReports

from .copy_sets import next_copy_set, wanted_row
from .election import ElectionRules, can_return, decide, elected_cleanly, has_leader, is_current
from .shelf_assignments import ShelfAssignments
from .shelf_planning import Stores, replace_stores, spec_after_report

REBALANCED_AT_ONCE_MAX = 1000
"""The largest number of leaderships that return at a time, since each return interrupts producers for a moment."""


class PartitionController(Struct, frozen=True):
    """Decides about partitions when events concern them."""

    store: LocalStore
    observed: Observed
    broker_configs: BrokerConfigs
    """The broker configs for all SPUs, which have the defaults for topics."""
    shelves: ShelfAssignments = field(default_factory=ShelfAssignments)

    def on_partition(self, change: Change[Partition]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        found = current or previous
        assert found is not None
        self.shelves.put((found.topic_id, found.number), () if current is None else current.spec.shelves)
        if current is None:
            assert previous is not None
            self.observed.forget((previous.topic_id, previous.number))
            if previous.topic_id in self.store.topics_by_id:
                yield DeletePartition(previous.topic_id, previous.number)
        elif current.topic_id in self.store.topics_by_id:
            if previous is None:
                yield AddPartition(current)
            elif _concerns_spus(previous, current):
                for spu in set(current.spec.replicas) - set(previous.spec.replicas):
                    self.observed.forget_failure((current.topic_id, current.number), spu)
                yield UpdatePartition(current)
            self._forget_outdated_reports(current)
            yield from self._decide(current)

    def _forget_outdated_reports(self, partition: Partition) -> None:
        key, resolution = (partition.topic_id, partition.number), partition.status.resolution
        if resolution is not PartitionResolution.ELECTION:
            self.observed.forget_election(key)
        if resolution is PartitionResolution.ONLINE:
            self.observed.forget_silence(key)

    def on_topic(self, change: Change[Topic]) -> Iterator[Action]:
        """Handles a topic that was created, deleted, brought back, changed, or read after its partitions at a start.

        New configs may allow an election, and new rows want other replicas.
        """
        previous, current = change.previous, change.current
        if previous is not None and current is not None and previous.id == current.id:
            yield from self._decide_all(self._concerned(previous, current))
            return
        if previous is not None:
            for number in self.store.partitions_of(previous.id):
                # If the topic is brought back, SPUs open its logs anew and report failures again.
                self.observed.forget((previous.id, number))
                yield DeletePartition(previous.id, number)
        if current is not None:
            for partition in self.store.partitions_of(current.id).values():
                yield AddPartition(partition)
                yield from self._decide(partition)

    def _concerned(self, previous: Topic, current: Topic) -> list[Partition]:
        rows_before, rows = previous.status.replica_map, current.status.replica_map
        are_configs_changed = previous.spec.configs != current.spec.configs
        return [
            partition
            for number, partition in self.store.partitions_of(current.id).items()
            if rows_before.get(number) != rows.get(number) or (are_configs_changed and _is_offline(partition))
        ]

    def on_spu(self, change: Change[Spu]) -> Iterator[Action]:
        """Handles an SPU that comes online, goes offline, or is another process now.

        No other change of an SPU matters for elections or for the stores of shelves.
        """
        spu = change.current or change.previous
        assert spu is not None
        held, shelved = self.store.held_by(spu.spec.id), self.store.shelved_on(spu.spec.id)
        is_another = _process(change.previous) != _process(change.current)
        if is_another:
            if _process(change.current) is not None:
                self._retry_silent_replicas(held.values())
            yield from self._decide_all(held.values())
        if is_another or change.current is None:
            yield from self._decide_all(partition for key, partition in shelved.items() if key not in held)

    def on_group(self, _: Change[SpuGroup]) -> Iterator[Action]:
        """Finds other stores for the shelves of SPUs that leave their group."""
        leaving = [spu for spu in self.store.spus.values() if is_leaving(spu, self.store)]
        shelved = {key: partition for spu in leaving for key, partition in self.store.shelved_on(spu.spec.id).items()}
        yield from self._decide_all(shelved.values())

    def on_response(self, event: SpuConnected | SpuResponded) -> Iterator[Action]:
        """Includes an SPU that responds again, which may be the same process, in elections again.

        A decision that followed from its silence may still be waiting to be written.
        """
        held = self.store.held_by(event.spu)
        offline = [each for each in held.values() if _is_offline(each)]
        self._retry_silent_replicas(offline)
        was_silent = [each for key, each in held.items() if self.observed.forget_silence_of(key, event.spu)]
        yield from self._decide_all((*offline, *was_silent))

    def on_report(self, event: LiveReplicasReported | ShelvesReported | ReplicaOpened) -> Iterator[Action]:
        yield from self._decide_keys([(event.topic_id, event.number)])

    def on_log_ends(self, event: LogEndsReported) -> Iterator[Action]:
        self._forget_late_reports(event.asked)
        yield from self._decide_keys(event.asked)

    def on_silence(self, event: LeaderSilent | ReplicaFailed) -> Iterator[Action]:
        key = (event.topic_id, event.number)
        self._forget_late_reports([key])
        yield from self._decide_keys([key])

    def _forget_late_reports(self, keys: Iterable[PartitionKey]) -> None:
        """Forgets reports of silence that came too late: the partition was deleted, or has a leader by now.

        An SPU that was silent in an election that is over may lead after the next one.
        """
        for key in keys:
            partition = self.store.partitions.get(key)
            if partition is None or partition.topic_id not in self.store.topics_by_id:
                self.observed.forget(key)
            elif partition.status.resolution is PartitionResolution.ONLINE and self._has_leader(partition):
                self.observed.forget_silence(key)

    def _has_leader(self, partition: Partition) -> bool:
        return has_leader(partition, self.store.spus, self.observed.reports_of((partition.topic_id, partition.number)))

    def rebalance(self, failed: Collection[FailedReplica] = ()) -> Iterator[Action]:
        """Returns leadership to the preferred replicas that can lead, a limited number at a time.

        Replicas in `failed` get nothing back. If the log of a preferred replica cannot be opened, the leader will
        remove that replica from the live set, which it could not do if its leadership were returned again and again.
        """
        returned = 0
        for topic in self.store.topics.values():
            for partition in self.store.partitions_of(topic.id).values():
                preferred = partition.spec.initial_leader
                has_failed = (topic.id, partition.number, preferred) in failed
                if returned < REBALANCED_AT_ONCE_MAX and not has_failed and self._may_return(partition):
                    returned += 1
                    yield Put(replace(partition, status=elected_cleanly(partition, preferred, self.store.spus)))

    def _may_return(self, partition: Partition) -> bool:
        reports = self.observed.reports_of((partition.topic_id, partition.number))
        return can_return(partition, self.store.spus, reports)

    def elect_offline(self) -> Iterator[Action]:
        """Checks the offline partitions again: the grace period for leases is over, or a broker config has changed."""
        yield from self._decide_all(filter(_is_offline, self.store.partitions.values()))

    def reconcile(self) -> Iterator[Action]:
        self._retry_silent_replicas(filter(_is_offline, self.store.partitions.values()))
        yield from self._decide_all(self.store.partitions.values())

    def _retry_silent_replicas(self, partitions: Iterable[Partition]) -> None:
        """Includes SPUs that did not respond in the elections of these partitions again."""
        for partition in partitions:
            self.observed.forget_silence((partition.topic_id, partition.number))

    def _decide_keys(self, keys: Iterable[PartitionKey]) -> Iterator[Action]:
        found = (self.store.partitions.get(key) for key in keys)
        yield from self._decide_all(partition for partition in found if partition is not None)

    def _decide_all(self, partitions: Iterable[Partition]) -> Iterator[Action]:
        topics = self.store.topics_by_id
        for partition in partitions:
            if partition.topic_id in topics:
                yield from self._decide(partition)

    def _decide(self, partition: Partition) -> Iterator[Action]:
        key = (partition.topic_id, partition.number)
        reports = self.observed.reports_of(key)
        decision = decide(partition, self.store.spus, reports, self._rules(partition))
        if decision.status != partition.status:
            decided = replace(partition, status=decision.status)
        else:
            decided = self._with_next_copy_set(partition, reports)
            if decided == partition and partition.status.resolution is PartitionResolution.ONLINE:
                decided = self._with_next_shelves(partition, reports.shelves)
        if decided != partition:
            yield Put(decided)
        for spu in decision.asks:
            incarnation = self.store.spus[spu].status.incarnation
            yield AskLogEnd(spu, incarnation, *key, partition.status.epoch)
        status = partition.status
        if decided == partition and status.resolution is PartitionResolution.CANDIDATE_FOUND:
            yield AwaitLeader(status.leader, status.incarnation, *key, status.epoch)

    def _with_next_copy_set(self, partition: Partition, reports: PartitionReports) -> Partition:
        """Returns the partition one step closer to its topic's row for it."""
        topic, report, spus = self.store.topics_by_id[partition.topic_id], reports.live_replicas, self.store.spus
        has_taken_over = report is not None and is_current(report, partition) and report.has_taken_over
        return next_copy_set(
            partition,
            wanted_row(partition, topic),
            spus,
            policy_of(topic.spec.configs),
            [spu for spu in partition.spec.replicas if spu in spus and reports.has_failed(spus[spu])],
            has_taken_over=has_taken_over,
        )

    def _with_next_shelves(self, partition: Partition, report: ShelvesReported | None) -> Partition:
        key, spec = (partition.topic_id, partition.number), partition.spec
        if report is None and not spec.shelves:
            return partition
        self.shelves.put(key, spec.shelves)  # Only decisions about other partitions count here, not the last one.
        topic = self.store.topics_by_id[partition.topic_id]
        stores = Stores(
            accepting=cache(lambda: with_racks(accepting_spus(self.store, self.observed), topic)),
            is_unwanted=cache(lambda spu: is_unwanted(spu, self.store, self.observed)),
            load=self.shelves.load,
        )
        after = spec
        if report is not None:
            if is_current(report, partition):
                after = spec_after_report(spec, report, stores)
            if after == spec:
                self.observed.forget_shelves(key)
        if after == spec:
            after = replace_stores(spec, stores)
        if after == spec:
            return partition
        self.shelves.put(key, after.shelves)
        return replace(partition, spec=after)

    def _rules(self, partition: Partition) -> ElectionRules:
        own = self.store.topics_by_id[partition.topic_id].spec.configs
        allows, _ = effective_value(TOPIC_CONFIGS["unclean.leader.election.enable"], own, self.broker_configs)
        return ElectionRules(
            by_quorum=policy_of(own) != LIVE,
            # Before the grace period is over, live replicas may be about to connect, as after a start of the cluster.
            unclean=allows is True and self.observed.lease_grace_period_over,
        )


def _concerns_spus(previous: Partition, current: Partition) -> bool:
    before, now = previous.status, current.status
    return (
        previous.spec != current.spec
        or before.leads != now.leads
        or before.epoch != now.epoch
        or (before.live_version, before.live_replicas) != (now.live_version, now.live_replicas)
    )


def _process(spu: Spu | None) -> str | None:
    """Returns the incarnation of the SPU's process, or None while the SPU is offline."""
    return spu.status.incarnation if spu is not None and spu.is_online else None


def _is_offline(partition: Partition) -> bool:
    return partition.status.resolution is PartitionResolution.OFFLINE
