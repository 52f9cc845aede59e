"""Reports to the Streaming Controller which replicas are live, of the partitions that this SPU leads, and which of its
own have failed.

The controller counts a partition as online once its leader has spoken. Where there are followers, the leader proposes
the set that is to be stored, and repeats itself until the controller's specs answer; where there are none, nothing can
change, and each election is announced. On a new connection all that is unanswered is said again, and every leader
announced: another controller may be at its end. A replica whose log did not open, or whose disk failed, is not
announced: it serves nobody.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import starmap

import trio
from structlog.typing import FilteringBoundLogger

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
from tailrace.storage.directory.checkpoints import ReplicaKey

from .spec_messages import reported_partition

REPORTED_AT_ONCE_MAX = 5000

Report = Callable[[ReportLiveReplicasRequest], Awaitable[ReportLiveReplicasResponse]]


class LiveReplicaReports:
    def __init__(self, replicas: ReplicaRegistry, metrics: BrokerMetrics, logger: FilteringBoundLogger) -> None:
        self._replicas = replicas
        self._metrics = metrics
        self._logger = logger
        self._proposed: dict[ReplicaKey, ProposeLiveReplicas] = {}
        """The last one of each leader, until there is an answer."""
        self._unsaid: dict[ReplicaKey, None] = {}
        """Those of them that are to be sent."""
        self._announced: dict[ReplicaKey, Epoch] = {}
        self._given_up: set[ReplicaKey] = set()
        """What can neither be led nor followed here, as long as it is here and that is so."""
        self._left_in: dict[ReplicaKey, Epoch] = {}
        """The epoch in which a replica's part among others was given up: in that one it leads no more, even if its log
        is well again. Said until there is a later one, for the Streaming Controller may have been away."""
        self._unopened: set[ReplicaKey] = set()
        """Those of them whose logs did not open."""
        self._opened: dict[ReplicaKey, None] = {}
        """Those that did when they were tried again, until that is said and answered."""
        self._are_specs_new = False
        self._changed_keys: dict[ReplicaKey, None] = {}
        """Those with new specs, which are to be looked at: there may be thousands of others."""
        self._changed = trio.Event()

    # what happened

    def propose(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> None:
        """Sent soon, with whatever else there is, and once: whoever proposes repeats it."""
        self._proposed[key] = proposal
        self._unsaid[key] = None
        self._changed.set()

    def give_up(self, key: ReplicaKey) -> None:
        """Its storage has failed, or its log did not open: another is to lead, and some day another to have it."""
        self._given_up.add(key)
        replica = self._replicas.find(*key)
        if replica is not None and not replica.is_alone:
            self._left_in[key] = replica.spec.epoch
        self._proposed.pop(key, None)
        self._unsaid[key] = None
        self._changed.set()

    def on_changed(self, keys: Iterable[ReplicaKey] | None = None) -> None:
        """Specs of these were applied, or of all: there may be answers, and leaders to announce."""
        self._are_specs_new = True
        self._changed_keys |= dict.fromkeys(self._all_keys() if keys is None else keys)
        self._changed.set()

    # life

    async def run(self, report: Report) -> None:
        """On one connection, until cancelled."""
        self._announced.clear()
        self.on_changed()
        self._unsaid = dict.fromkeys((*self._proposed, *self._given_up, *self._left_in))
        while True:
            self._changed = trio.Event()
            due = self._take_due()
            for start in range(0, len(due), REPORTED_AT_ONCE_MAX):
                await self._report(report, due[start : start + REPORTED_AT_ONCE_MAX])
            self._opened.clear()
            await self._changed.wait()

    def _take_due(self) -> list[ReportedPartition]:
        if self._are_specs_new:
            self._forget_answered()
        due = {key: self._proposed[key] for key in self._unsaid if key in self._proposed}
        failed = [failure for key in self._unsaid if (failure := self._failure(key)) is not None]
        self._opened |= {key: None for key in self._unsaid if key in self._left_in}
        opened = [ReportedPartition(*key, NO_EPOCH) for key in self._opened if self._is_well(key)]
        self._unsaid.clear()
        if self._are_specs_new:
            self._are_specs_new = False
            self._announce(due)
        return [*(self._reported(key, proposal) for key, proposal in due.items()), *failed, *opened]

    def _reported(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> ReportedPartition:
        """And how the records stand meanwhile."""
        reported, replica = reported_partition(key, proposal), self._replicas.find(*key)
        if replica is not None and replica.is_leader:
            reported.high_watermark = replica.high_watermark
            reported.log_end = replica.log.log_end
            reported.lags = list(starmap(Lag, lags_of_followers(replica).items()))
        return reported

    def _forget_answered(self) -> None:
        for key in [key for key, proposal in self._proposed.items() if self._is_answered(key, proposal)]:
            del self._proposed[key]
            self._unsaid.pop(key, None)
        self._left_in = {
            key: left
            for key, left in self._left_in.items()
            if (epoch := self._epoch(key)) is not None and epoch <= left
        }
        self._given_up = {key for key in self._given_up if self._epoch(key) is not None and not self._is_well(key)}
        self._opened |= dict.fromkeys(self._unopened - self._given_up)
        self._unopened = self._given_up & self._replicas.damaged.keys()

    def _failure(self, key: ReplicaKey) -> ReportedPartition | None:
        """None where it is not here, or not the one that failed. A log that did not open is tried again when somebody
        else is elected: so it is not said of any epoch, in which nobody would be elected here any more."""
        replica, left_in = self._replicas.find(*key), self._left_in.get(key)
        if left_in is None and (key not in self._given_up or self._is_well(key)):
            return None
        if replica is not None and replica.offline_reason is not None:
            left_in = replica.spec.epoch
        if left_in is not None:
            return ReportedPartition(*key, left_in, has_failed=True)
        return ReportedPartition(*key, NO_EPOCH, has_failed=True) if key in self._replicas.damaged else None

    def _is_well(self, key: ReplicaKey) -> bool:
        replica = self._replicas.find(*key)
        return replica is not None and replica.offline_reason is None

    def _epoch(self, key: ReplicaKey) -> Epoch | None:
        """Of its newest spec; None where it is not here."""
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

    def _is_answered(self, key: ReplicaKey, proposal: ProposeLiveReplicas) -> bool:
        """By a newer spec: what was proposed is stored by then, or never will be."""
        replica = self._replicas.find(*key)
        return replica is None or (proposal.epoch, proposal.version) < (replica.spec.epoch, replica.spec.version)

    async def _report(self, report: Report, due: Sequence[ReportedPartition]) -> None:
        self._metrics.live_replica_updates += len(due)
        self._logger.debug("live_replicas_updated", partitions=len(due))
        answer = await report(ReportLiveReplicasRequest(partitions=list(due)))
        if answer.error_code != ErrorCode.NONE:
            # Somebody else leads by now; the specs that say so are on their way.
            self._logger.info("live_replicas_refused", code=known_code(answer.error_code).name, partitions=len(due))


def _announces_itself(replica: Replica) -> bool:
    """Those without followers; the others propose what is to be stored."""
    return replica.is_alone and replica.is_leader and replica.offline_reason is None


def _is_about_to_lead(replica: Replica) -> bool:
    """When replication is done with its log."""
    leads = replica.spec.leader in replica.spec.replicas
    return replica.is_alone and leads and not replica.is_leader and replica.offline_reason is None
