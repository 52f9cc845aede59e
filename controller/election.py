"""Who leads a partition, and which replicas are live: the rules, and nothing else.

A live replica has all that was acknowledged as long as its store is the one that was seen to have caught up: it is
*sure*. Whichever sure one leads, nothing is lost, so the one with the most is taken, and when it does not respond the
next. Only when every live replica's store has started anew without what it may have lost, all of them are waited for,
and then the one with the most has all. An election takes nobody out of the live set: the candidate may be gone itself,
and who was taken out would have been the last to have it all. The leader does that, as the first thing it reports.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

from .events import LiveReplicasReported
from .objects import LiveReplicas, Partition, PartitionResolution, PartitionStatus, Spu
from .observed import Heard

Spus = Mapping[SpuId, Spu]


@dataclass(frozen=True, slots=True)
class Decision:
    status: PartitionStatus
    asks: tuple[SpuId, ...] = ()
    """Those whose log ends must be known to go on."""


def decide(partition: Partition, spus: Spus, heard: Heard) -> Decision:
    """What the status is to be, given the SPUs and what they last said; the same from the same, whoever asks."""
    status = partition.status
    if status.resolution is PartitionResolution.NONE:
        return _offline(partition, "no leader has been elected yet")
    if has_leader(partition, spus):
        report = heard.report
        if report is not None and is_current(report, partition):
            return Decision(as_reported(partition, spus, report))
        if status.resolution is PartitionResolution.ONLINE or not _is_silent(status.leader, spus, heard):
            return Decision(status)
    if status.epoch == NO_EPOCH:
        return _first_election(partition, spus)
    return _election(partition, spus, heard)


def has_leader(partition: Partition, spus: Spus) -> bool:
    """Whether the one that was elected is still there, in the process that was elected."""
    status = partition.status
    found = spus.get(status.leads)
    return found is not None and found.is_online and found.status.incarnation == status.incarnation


def is_current(report: LiveReplicasReported, partition: Partition) -> bool:
    """Whether the leader says it of this epoch: nobody else, and of no other epoch, has anything to say."""
    status = partition.status
    said_by = (report.spu, report.incarnation, report.epoch)
    return said_by == (status.leader, status.incarnation, status.epoch)


def is_sure(spu: SpuId, live: LiveReplicas, spus: Spus) -> bool:
    """Whether it is online with the store that had all."""
    found = spus.get(spu)
    return found is not None and found.is_online and found.status.store_incarnation == live.get(spu)


# reports


def as_reported(partition: Partition, spus: Spus, report: LiveReplicasReported) -> PartitionStatus:
    """The leader leads. Its live replicas are stored if it made them from those that are stored now; if they cannot be,
    the version rises all the same, so that it knows and may propose others."""
    status = replace(partition.status, resolution=PartitionResolution.ONLINE, reason="")
    stored, leader = status.live_replicas, status.leader
    of_leader = {leader: spus[leader].status.store_incarnation}  # it has all that there is
    if not report.members:
        live = {**stored, **of_leader}
        return status if live == stored else replace(status, live_replicas=live, live_version=status.live_version + 1)
    if report.version != status.live_version:
        return status  # it was stored already, or never will be
    live = {spu: incarnation or stored.get(spu, "") for spu, incarnation in report.members} | of_leader
    if not all(_can_be_live(spu, incarnation, partition, spus) for spu, incarnation in live.items()):
        live = dict(stored)
    live = {spu: live[spu] for spu in partition.spec.replicas if spu in live}
    return replace(status, live_replicas=live, live_version=status.live_version + 1)


def _can_be_live(spu: SpuId, incarnation: str, partition: Partition, spus: Spus) -> bool:
    """A store that had caught up and has started anew since is not what the leader saw; but one that stands there
    already stays as it is, whatever happened to it."""
    if spu not in partition.spec.replicas or not incarnation:
        return False
    is_there = spu in spus and spus[spu].status.store_incarnation == incarnation
    return is_there or partition.status.live_replicas.get(spu) == incarnation


# elections


def _first_election(partition: Partition, spus: Spus) -> Decision:
    """Nothing was written yet: any replica has it all."""
    online = [spu for spu in _in_order(partition) if _is_online(spu, spus)]
    if not online:
        return _offline(partition, f"none of its SPUs is online: {_listed(partition.spec.replicas)}")
    live = {spu: spus[spu].status.store_incarnation for spu in _live_from_the_start(online)}
    return _found(replace(partition, status=replace(partition.status, live_replicas=live)), online[0], spus)


def _live_from_the_start(online: list[SpuId]) -> list[SpuId]:
    """All that are online, once followers replicate; until then the leader alone."""
    return online[:1]


def _election(partition: Partition, spus: Spus, heard: Heard) -> Decision:
    live = partition.status.live_replicas
    present = [spu for spu in _in_order(partition) if spu in live and _is_online(spu, spus)]
    sure = [spu for spu in present if is_sure(spu, live, spus)]
    if sure:
        return _among_sure(partition, sure, spus, heard)
    if len(present) < len(live):
        return _offline(partition, _waits_for(live, present))
    return _among_unsure(partition, present, spus, heard)


def _among_sure(partition: Partition, sure: list[SpuId], spus: Spus, heard: Heard) -> Decision:
    """Each has all that was acknowledged: the one with the smallest lag, then the next one."""
    left = [spu for spu in sure if not _is_silent(spu, spus, heard)]
    if not left:
        return _offline(partition, f"no live replica responds: {_listed(sure)}")
    if len(left) == 1:
        return _found(partition, left[0], spus)
    ends = _log_ends(partition, left, spus, heard)
    if len(ends) < len(left) or partition.status.resolution is not PartitionResolution.ELECTION:
        return _asking(partition, left, ends)
    return _found(partition, max(left, key=ends.__getitem__), spus)


def _among_unsure(partition: Partition, present: list[SpuId], spus: Spus, heard: Heard) -> Decision:
    """Each may have lost the end of what it acknowledged, so only the one with the most is known to have all. (The
    epoch of the last entry does not count: what recovery had just stamped looks newer, and may be less.)"""
    silent = [spu for spu in present if _is_silent(spu, spus, heard)]
    if silent:
        return _offline(partition, f"all live replicas stopped uncleanly, and not all respond: {_listed(silent)}")
    if len(present) == 1:
        return _found(partition, present[0], spus)
    ends = _log_ends(partition, present, spus, heard)
    if len(ends) < len(present) or partition.status.resolution is not PartitionResolution.ELECTION:
        return _asking(partition, present, ends)
    return _found(partition, max(present, key=ends.__getitem__), spus)


def _found(partition: Partition, leader: SpuId, spus: Spus) -> Decision:
    return Decision(
        replace(
            partition.status,
            resolution=PartitionResolution.CANDIDATE_FOUND,
            leader=leader,
            epoch=Epoch(partition.status.epoch + 1),
            incarnation=spus[leader].status.incarnation,
            reason="",
        )
    )


def _asking(partition: Partition, candidates: list[SpuId], known: Mapping[SpuId, int]) -> Decision:
    status = replace(partition.status, resolution=PartitionResolution.ELECTION, reason="")
    return Decision(status, tuple(spu for spu in candidates if spu not in known))


def _offline(partition: Partition, reason: str) -> Decision:
    return Decision(replace(partition.status, resolution=PartitionResolution.OFFLINE, reason=reason))


def _waits_for(live: LiveReplicas, present: list[SpuId]) -> str:
    if not present:
        return f"none of its live replicas is online: {_listed(live)}"
    away = _listed(spu for spu in live if spu not in present)
    return f"its live replicas that are online stopped uncleanly: {_listed(present)}; it waits for the others: {away}"


# what is known of an SPU


def _in_order(partition: Partition) -> tuple[SpuId, ...]:
    """The leader as long as it can, then the initial one and the others as the spec has them."""
    replicas = partition.spec.replicas
    preferred = (partition.status.leader, partition.spec.initial_leader, *replicas)
    return tuple(dict.fromkeys(spu for spu in preferred if spu in replicas))


def _log_ends(partition: Partition, candidates: list[SpuId], spus: Spus, heard: Heard) -> dict[SpuId, int]:
    """Of those that said it in this election, in the process that is there now."""
    return {
        spu: said.log_end
        for spu in candidates
        if (said := heard.log_ends.get(spu)) is not None
        and (said.epoch, said.incarnation) == (partition.status.epoch, spus[spu].status.incarnation)
    }


def _is_silent(spu: SpuId, spus: Spus, heard: Heard) -> bool:
    """Whether this process was given its time to respond, in this round."""
    return heard.silent.get(spu) == spus[spu].status.incarnation


def _is_online(spu: SpuId, spus: Spus) -> bool:
    found = spus.get(spu)
    return found is not None and found.is_online


def _listed(spus: Iterable[SpuId]) -> str:
    return ", ".join(map(str, spus))
