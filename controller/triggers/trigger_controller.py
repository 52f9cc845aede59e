"""The controller of triggers: how many replicas each should have, which revision they run, and why.

It decides the status of triggers, and tells the provisioner which replicas to run. A trigger without a topic has no
replicas, and neither has one that is paused.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tailrace.controller.objects.objects import (
    Topic,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
    replica_name,
)
from tailrace.controller.state.actions import Action, DropReplica, ForgetReplicas, KeepReplica, Put
from tailrace.controller.state.events import TriggerReported
from tailrace.controller.state.local_store import Change, LocalStore
from tailrace.runtime.network import Address

from .replica_scaling import LagHistory, ReplicaCount, ReplicaLimits
from .rollouts import awaited, next_revisions
from .trigger_reports import Reported, TriggerReports


class TriggerController:
    """Decides about triggers when events concern them."""

    def __init__(self, store: LocalStore, reports: TriggerReports) -> None:
        self._store = store
        self.reports = reports
        """The latest reports of all replicas, also of triggers that were not deployed."""
        self._histories: dict[str, LagHistory] = {}

    def on_trigger(self, change: Change[Trigger]) -> Iterator[Action]:
        previous, current = change.previous, change.current
        before = () if previous is None else previous.status.revisions
        now = () if current is None else current.status.revisions
        trigger = current or previous
        assert trigger is not None
        name = trigger.name
        for index, revision in enumerate(before):
            if index >= len(now) or now[index] != revision:
                self.reports.drop(name, replica_name(index))  # It is about a process that is to end.
            if index >= len(now):
                yield DropReplica(name, replica_name(index))
        if current is None:
            self.reports.forget(name)
            self._histories.pop(name, None)
            yield ForgetReplicas(name)
            return
        yield from _kept(current)
        yield from self._decide(current, None)

    def on_topic(self, change: Change[Topic]) -> Iterator[Action]:
        """Decides about the triggers of a topic that was created or deleted, or has got more shards."""
        topic = change.current or change.previous
        assert topic is not None
        for trigger in tuple(self._store.triggers.values()):
            if trigger.spec.topic == topic.name:
                yield from self._decide(trigger, None)

    def on_report(self, event: TriggerReported) -> Iterator[Action]:
        self.reports.note(event.trigger, event.replica, Reported(event.report, event.characters, event.at))
        trigger = self._store.triggers.get(event.trigger)
        if trigger is not None:
            yield from self._decide(trigger, event.at)

    def reconcile(self) -> Iterator[Action]:
        """Tells the provisioner again what should run. It knows what runs, so this usually changes nothing."""
        for trigger in self._store.triggers.values():
            yield from _kept(trigger)
            yield from self._decide(trigger, None)

    def _decide(self, trigger: Trigger, now: float | None) -> Iterator[Action]:
        """Decides the status of a trigger. `now` is the time of a report, or None if something else has happened."""
        status = self._next_status(trigger, now)
        if status != trigger.status:
            yield Put(replace(trigger, status=status))

    def _next_status(self, trigger: Trigger, now: float | None) -> TriggerStatus:
        spec = trigger.spec
        topic = self._store.topics.get(spec.topic)
        if spec.paused:
            return TriggerStatus(TriggerResolution.PAUSED)
        if topic is None:
            return TriggerStatus(TriggerResolution.WAITING, f"there is no topic {spec.topic}")
        count = self._count(trigger, topic.spec.partitions, now)
        reports = {} if now is None else self.reports.current(trigger.name, now)
        revisions = next_revisions(trigger.status.revisions, count.replicas, spec.revision, reports)
        waits_for = awaited(revisions, spec.revision, reports)
        was_redeploying = trigger.status.resolution is TriggerResolution.REDEPLOYING
        if all(revision == spec.revision for revision in revisions) and not (was_redeploying and waits_for):
            return TriggerStatus(TriggerResolution.RUNNING, count.reason, revisions)
        if now is None and was_redeploying:
            reason = trigger.status.reason
        else:
            reason = f"waits until {waits_for} runs revision {spec.revision}"
        return TriggerStatus(TriggerResolution.REDEPLOYING, reason, revisions)

    def _count(self, trigger: Trigger, shards: int, now: float | None) -> ReplicaCount:
        """Decides the number of replicas."""
        spec, status = trigger.spec, trigger.status
        if spec.min_replicas is None:
            return ReplicaCount(spec.replicas, "")
        limits = ReplicaLimits(spec.min_replicas, spec.replicas, shards)
        replicas = min(max(len(status.revisions), limits.least), limits.useful)
        unchanged = ReplicaCount(replicas, status.reason if status.resolution is TriggerResolution.RUNNING else "")
        if now is None:
            return unchanged
        history = self._histories.setdefault(trigger.name, LagHistory(now))
        history.note(list(self.reports.current(trigger.name, now).values()), now)
        decided = history.decide(now, replicas, limits)
        if decided is None:
            return unchanged
        if decided.replicas != replicas:
            self._histories[trigger.name] = LagHistory(now)
        return decided


def _kept(trigger: Trigger) -> Iterator[Action]:
    for index, revision in enumerate(trigger.status.revisions):
        spec, name = trigger.spec, replica_name(index)
        yield KeepReplica(trigger.name, name, revision, spec.function.python, _metrics(spec, index))


def _metrics(spec: TriggerSpec, index: int) -> Address | None:
    """Returns the address at which a replica serves its metrics. Port 0 stands for any free port."""
    if spec.metrics is None or spec.metrics.port == 0:
        return spec.metrics
    return Address(spec.metrics.host, spec.metrics.port + index)
