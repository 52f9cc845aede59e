"""Who leads a partition: the rule by which a leader is elected, and nothing else.

A replica may lead when it has all that was acknowledged: it is one of the live replicas, and its SPU is online in the
process that was seen to be live. Such an election can lose nothing. Only when every live replica's process has started
anew may one of them lead with what its disk kept; a partition without any live replica waits for one.
"""

from collections.abc import Mapping
from dataclasses import replace

from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

from .objects import Partition, PartitionResolution, PartitionStatus, Spu
from .observed import LiveReplicasReport

Spus = Mapping[SpuId, Spu]

_LED = (PartitionResolution.CANDIDATE_FOUND, PartitionResolution.ONLINE)


def elected(partition: Partition, spus: Spus, report: LiveReplicasReport | None) -> PartitionStatus:
    """The status after an election: a leader at the next epoch, or offline with the reason."""
    live = _candidates(partition, spus, report)
    if not live:
        return replace(partition.status, resolution=PartitionResolution.OFFLINE, reason=_nobody(partition))
    leader = live[0]
    return PartitionStatus(
        PartitionResolution.CANDIDATE_FOUND,
        leader=leader,
        epoch=Epoch(partition.status.epoch + 1),
        incarnation=spus[leader].status.incarnation,
        live_replicas=live,
    )


def has_leader(partition: Partition, spus: Spus) -> bool:
    """Whether the one that was elected is still there, in the process that was elected."""
    status = partition.status
    return status.resolution in _LED and _runs(status.leader, status.incarnation, spus)


def is_current(report: LiveReplicasReport | None, partition: Partition) -> bool:
    """Whether the leader says it of this epoch: nobody else, and of no other epoch, has anything to say."""
    status = partition.status
    return report is not None and report.epoch == status.epoch and report.incarnation == status.incarnation


def live_replicas(partition: Partition, spus: Spus, report: LiveReplicasReport | None) -> tuple[SpuId, ...]:
    """The leader, and those that it counts as live, if they are: by its report or, before the first, as elected."""
    claimed = partition.status.live_replicas if report is None else report.live_replicas
    return tuple(
        spu
        for spu in _in_order(partition)
        if spu == partition.status.leader or (spu in claimed and _is_fit(partition, spu, spus, report))
    )


def _candidates(partition: Partition, spus: Spus, report: LiveReplicasReport | None) -> tuple[SpuId, ...]:
    """Those that will be the live replicas, the one to lead first."""
    online = tuple(spu for spu in _in_order(partition) if _is_online(spu, spus))
    if partition.status.epoch == NO_EPOCH:
        return online[:1]  # nothing was written yet: any replica has it all, and the others follow the first
    live = tuple(spu for spu in online if spu in partition.status.live_replicas)
    fit = tuple(spu for spu in live if _is_fit(partition, spu, spus, report))
    return fit or live[:1]


def _in_order(partition: Partition) -> tuple[SpuId, ...]:
    """The leader as long as it can, then the initial one and the others as the spec has them."""
    replicas = partition.spec.replicas
    preferred = (partition.status.leader, partition.spec.initial_leader, *replicas)
    return tuple(dict.fromkeys(spu for spu in preferred if spu in replicas))


def _is_fit(partition: Partition, spu: SpuId, spus: Spus, report: LiveReplicasReport | None) -> bool:
    """Whether the SPU is online in the process that was seen to be live, as far as that is known."""
    if spu == partition.status.leader:
        return _runs(spu, partition.status.incarnation, spus)
    if report is not None:
        return spu in report.incarnations and _runs(spu, report.incarnations[spu], spus)
    return _is_online(spu, spus)


def _is_online(spu: SpuId, spus: Spus) -> bool:
    found = spus.get(spu)
    return found is not None and found.is_online


def _runs(spu: SpuId, incarnation: str, spus: Spus) -> bool:
    found = spus.get(spu)
    return found is not None and found.is_online and found.status.incarnation == incarnation


def _nobody(partition: Partition) -> str:
    if partition.status.epoch == NO_EPOCH:
        return f"none of its SPUs is online: {_listed(partition.spec.replicas)}"
    return f"none of its live replicas is online: {_listed(partition.status.live_replicas)}"


def _listed(spus: tuple[SpuId, ...]) -> str:
    return ", ".join(map(str, spus))
