"""Reports live replicas and failed replicas to the Streaming Controller.

The controller counts a partition as online when its leader has reported. If there are followers, the leader proposes a
live replica set and repeats the proposal until the controller's specs respond to it. If there are none, the set cannot
change, so the leader announces itself once after each election. A new connection may lead to another controller:
proposals without a response are then sent again, and all leaders without followers announce themselves again. A replica
whose log did not open, or whose disk failed, is not announced.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import starmap

import trio

from tailrace.broker.descriptions.replica_counts import lags_of_followers
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replication.messages import ProposeLiveReplicas
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, known_code
from tailrace.protocol.ids import NO_EPOCH, Epoch
from tailrace.protocol.internal.report_live_replicas import (
    Lag,
    ReportedPartition,
    ReportLiveReplicasRequest,
    ReportLiveReplicasResponse,
)
from tailrace.runtime.logs import FilteringBoundLogger, shows_debug
from tailrace.storage.directory.checkpoints import ReplicaKey

from .spec_messages import reported_partition

REPORTED_AT_ONCE_MAX = 5000
"""How many partitions one message reports."""

Report = Callable[[ReportLiveReplicasRequest], Awaitable[ReportLiveReplicasResponse]]


class LiveReplicaReporter:
    def __init__(self, replicas: ReplicaRegistry, metrics: BrokerMetrics, logger: FilteringBoundLogger) -> None:
        self._replicas = replicas
        self._metrics = metrics
        self._logger = logger
        self._proposed: dict[ReplicaKey, ProposeLiveReplicas] = {}
        """The last proposal of each leader, until the specs respond to it."""
        self._unsent: dict[ReplicaKey, None] = {}
        """The partitions whose proposal or failure has still to be sent. Used as an ordered set."""
        self._announced: dict[ReplicaKey, Epoch] = {}
        """The epoch in which each leader without followers was announced on this connection."""
        self._failed: set[ReplicaKey] = set()
        """The local replicas that can neither lead nor follow at the moment."""
        self._left_in: dict[ReplicaKey, Epoch] = {}
        """The epoch in which each failed replica with followers or a leader gave up its role.

        It must not lead again in that epoch, even if its log is repaired. The failure is reported until there is a
        later epoch, because the Streaming Controller may have been unreachable.
        """
        self._unopened: set[ReplicaKey] = set()
        """The failed replicas whose logs did not open."""
        self._opened: dict[ReplicaKey, None] = {}
        """The failed replicas that have opened since, until the report of that got a response.

        Used as an ordered set.
        """
        self._are_specs_new = False
        self._changed_keys: dict[ReplicaKey, None] = {}
        """The partitions with new specs.

        Only these are checked, because there may be thousands. Used as an ordered set.
        """
        self._changed = trio.Event()

    # events

    def propose(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> None:
        """Sends the proposal soon and once. The leader repeats it if necessary."""
        self._proposed[key] = proposal
        self._unsent[key] = None
        self._changed.set()

    def on_failed(self, key: ReplicaKey) -> None:
        """Reports that the storage of the replica failed or its log did not open, so that another replica can lead."""
        self._failed.add(key)
        replica = self._replicas.find(*key)
        if replica is not None and not replica.is_alone:
            self._left_in[key] = replica.spec.epoch
        self._proposed.pop(key, None)
        self._unsent[key] = None
        self._changed.set()

    def on_changed(self, keys: Iterable[ReplicaKey] | None = None) -> None:
        """Checks partitions whose specs were applied, or all, for responses and for leaders to announce."""
        self._are_specs_new = True
        self._changed_keys |= dict.fromkeys(self._all_keys() if keys is None else keys)
        self._changed.set()

    # sending

    async def run(self, report: Report) -> None:
        """Reports on one connection until cancelled."""
        self._announced.clear()
        self.on_changed()
        self._unsent = dict.fromkeys((*self._proposed, *self._failed, *self._left_in))
        while True:
            self._changed = trio.Event()
            due = self._take_due()
            for start in range(0, len(due), REPORTED_AT_ONCE_MAX):
                await self._report(report, due[start : start + REPORTED_AT_ONCE_MAX])
            self._opened.clear()
            await self._changed.wait()

    def _take_due(self) -> list[ReportedPartition]:
        if self._are_specs_new:
            self._forget_confirmed()
        due = {key: self._proposed[key] for key in self._unsent if key in self._proposed}
        failed = [failure for key in self._unsent if (failure := self._failure(key)) is not None]
        self._opened |= {key: None for key in self._unsent if key in self._left_in}
        opened = [ReportedPartition(*key, NO_EPOCH) for key in self._opened if self._is_usable(key)]
        self._unsent.clear()
        if self._are_specs_new:
            self._are_specs_new = False
            self._announce(due)
        return [*(self._reported(key, proposal) for key, proposal in due.items()), *failed, *opened]

    def _reported(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> ReportedPartition:
        """Returns the report of a proposal, with the current ends and lags of the log."""
        reported, replica = reported_partition(key, proposal), self._replicas.find(*key)
        if replica is not None and replica.is_leader:
            reported.high_watermark = replica.high_watermark
            reported.log_end = replica.log.log_end
            reported.lags = list(starmap(Lag, lags_of_followers(replica).items()))
        return reported

    def _forget_confirmed(self) -> None:
        for key in [key for key, proposal in self._proposed.items() if self._is_confirmed(key, proposal)]:
            del self._proposed[key]
            self._unsent.pop(key, None)
        self._left_in = {
            key: left
            for key, left in self._left_in.items()
            if (epoch := self._epoch(key)) is not None and epoch <= left
        }
        self._failed = {key for key in self._failed if self._epoch(key) is not None and not self._is_usable(key)}
        self._opened |= dict.fromkeys(self._unopened - self._failed)
        self._unopened = self._failed & self._replicas.damaged.keys()

    def _failure(self, key: ReplicaKey) -> ReportedPartition | None:
        """Returns the report of a failed replica, or None if it is not on this SPU or usable again.

        A log that did not open is tried again after each election. Its failure is therefore reported without an epoch:
        with one, this SPU could not be elected in that epoch any more.
        """
        replica, left_in = self._replicas.find(*key), self._left_in.get(key)
        if left_in is None and (key not in self._failed or self._is_usable(key)):
            return None
        if replica is not None and replica.offline_reason is not None:
            left_in = replica.spec.epoch
        if left_in is not None:
            return ReportedPartition(*key, left_in, has_failed=True)
        return ReportedPartition(*key, NO_EPOCH, has_failed=True) if key in self._replicas.damaged else None

    def _is_usable(self, key: ReplicaKey) -> bool:
        replica = self._replicas.find(*key)
        return replica is not None and replica.offline_reason is None

    def _epoch(self, key: ReplicaKey) -> Epoch | None:
        """Returns the epoch of the newest spec, or None if the replica is not on this SPU."""
        replica, damage = self._replicas.find(*key), self._replicas.damaged.get(key)
        return replica.spec.epoch if replica is not None else damage.epoch if damage is not None else None

    def _announce(self, due: dict[ReplicaKey, ProposeLiveReplicas]) -> None:
        changed, self._changed_keys = self._changed_keys, {}
        for key in changed:
            replica = self._replicas.find(*key)
            if replica is None or not _announces_itself(replica):
                self._announced.pop(key, None)
                if replica is not None and _is_about_to_lead(replica):
                    self._changed_keys[key] = None
                continue
            spec = replica.spec
            if key not in due and self._announced.get(key) != spec.epoch:
                due[key] = ProposeLiveReplicas(spec.epoch, spec.version, ())
            self._announced[key] = spec.epoch

    def _all_keys(self) -> Iterator[ReplicaKey]:
        yield from self._announced
        yield from (replica.key for replica in self._replicas)

    def _name(self, reported: ReportedPartition) -> str:
        """Returns the name of a partition for the log."""
        replica = self._replicas.find(reported.topic_id, reported.partition)
        return f"{reported.topic_id if replica is None else replica.spec.topic}/{reported.partition}"

    def _is_confirmed(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> bool:
        """Returns whether a newer spec has arrived: the proposal is then stored, or never will be."""
        replica = self._replicas.find(*key)
        return replica is None or (proposal.epoch, proposal.version) < (replica.spec.epoch, replica.spec.version)

    async def _report(self, report: Report, due: Sequence[ReportedPartition]) -> None:
        self._metrics.live_replica_updates += len(due)
        if shows_debug():
            self._logger.debug("live_replicas_updated", partitions=[self._name(each) for each in due])
        response = await report(ReportLiveReplicasRequest(partitions=list(due)))
        if response.error_code != ErrorCode.NONE:
            # Another SPU leads. The specs with the new leader are on their way.
            self._logger.info("live_replicas_refused", code=known_code(response.error_code).name, partitions=len(due))


def _announces_itself(replica: Replica) -> bool:
    """Returns whether the replica is a leader without followers. Other leaders send proposals instead."""
    return replica.is_alone and replica.is_leader and replica.offline_reason is None


def _is_about_to_lead(replica: Replica) -> bool:
    """Returns whether the replica will lead without followers when its log is ready."""
    leads = replica.spec.leader in replica.spec.replicas
    return replica.is_alone and leads and not replica.is_leader and replica.offline_reason is None
