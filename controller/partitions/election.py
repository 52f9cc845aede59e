"""The rules of elections: which replica leads, which are live, and whom to wait for if all may have lost data.

A live replica has everything that was committed, as long as its store is the one that was seen to have caught up. Such
a replica is *sure*. Nothing is lost if any sure replica leads. So the one with the longest log is elected, and if it
does not respond, the next one.

If no live replica is sure, because each may have lost the end of its log, the election waits for all of them. Then the
one with the longest log has everything that is left.

An election does not remove replicas from the live set. The candidate may be offline itself, and a removed replica may
be the last one that has everything. The leader removes replicas with its first report.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tailrace.controller.objects.objects import LiveReplicas, Partition, PartitionResolution, PartitionStatus, Spu
from tailrace.controller.state.events import LiveReplicasReported, ShelvesReported
from tailrace.controller.state.observed import PartitionReports
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId

Spus = Mapping[SpuId, Spu]

UNKNOWN_STORE = ""
"""Stands for the store incarnation of a live replica whose store was not yet seen to have everything."""


class ElectionRules(Struct, frozen=True):
    """What a topic's configs say about elections."""

    by_quorum: bool = False
    """Whether any W of N replicas commit, instead of all live replicas."""
    unclean: bool = False
    """Whether a leader that lacks committed records is better than none."""


DEFAULT_RULES = ElectionRules()


class Decision(Struct, frozen=True):
    """What the rules decide about a partition."""

    status: PartitionStatus
    asks: tuple[SpuId, ...] = ()
    """The SPUs whose log ends must be known before the election can go on."""


def decide(
    partition: Partition, spus: Spus, reports: PartitionReports, rules: ElectionRules = DEFAULT_RULES
) -> Decision:
    """Decides the partition's next status from the SPUs' objects and reports. The same input gives the same status."""
    status = partition.status
    if status.resolution is PartitionResolution.NONE:
        return _offline(partition, "no leader has been elected yet")
    if has_leader(partition, spus, reports):
        report = reports.live_replicas
        if report is not None and is_current(report, partition):
            return Decision(status_after_report(partition, spus, report))
        if status.resolution is PartitionResolution.ONLINE or not _is_silent(status.leader, spus, reports):
            return Decision(status)
    if status.epoch == NO_EPOCH:
        return _first_election(partition, spus)
    return _election(partition, spus, reports, rules)


def has_leader(partition: Partition, spus: Spus, reports: PartitionReports) -> bool:
    """Tells whether the elected leader is online, in the process that was elected, and has not given up."""
    status = partition.status
    found = spus.get(status.leads)
    if found is None or not found.is_online or found.status.incarnation != status.incarnation:
        return False
    return not reports.has_given_up(found, status.epoch)


def is_current(report: LiveReplicasReported | ShelvesReported, partition: Partition) -> bool:
    """Tells whether the report comes from the current leader in its current epoch. Only such reports count."""
    status = partition.status
    said_by = (report.spu, report.incarnation, report.epoch)
    return said_by == (status.leader, status.incarnation, status.epoch)


def is_sure(spu: SpuId, live: LiveReplicas, spus: Spus) -> bool:
    """Tells whether the SPU is online with the store that is recorded in `live`, so that it has everything."""
    found = spus.get(spu)
    return found is not None and found.is_online and found.status.store_incarnation == live.get(spu)


def can_return(partition: Partition, spus: Spus, reports: PartitionReports) -> bool:
    """Tells whether the preferred replica does not lead and could lead at once."""
    status, preferred = partition.status, partition.spec.initial_leader
    return (
        status.resolution is PartitionResolution.ONLINE
        and status.leader != preferred
        and is_sure(preferred, status.live_replicas, spus)
        and not _is_silent(preferred, spus, reports)
    )


# reports


def status_after_report(partition: Partition, spus: Spus, report: LiveReplicasReported) -> PartitionStatus:
    """Returns the status after a current report: the partition is online, and may get other live replicas.

    The proposed live replicas count only if the leader made them from the stored ones. If the SC refuses them, the live
    version rises all the same, so that the leader knows and may propose others.
    """
    status = replace(partition.status, resolution=PartitionResolution.ONLINE, reason="")
    stored, leader = status.live_replicas, status.leader
    of_leader = {leader: spus[leader].status.store_incarnation}  # The leader has everything by definition.
    if not report.members:
        live = {**stored, **of_leader}
        return status if live == stored else with_live_replicas(status, live)
    if report.version != status.live_version:
        return status  # The proposal was stored already, or is outdated.
    live = {spu: incarnation or stored.get(spu, UNKNOWN_STORE) for spu, incarnation in report.members} | of_leader
    if not all(_can_be_live(spu, incarnation, partition, spus) for spu, incarnation in live.items()):
        live = dict(stored)
    live = {spu: live[spu] for spu in partition.spec.replicas if spu in live}
    return with_live_replicas(status, live)


def _can_be_live(spu: SpuId, incarnation: str, partition: Partition, spus: Spus) -> bool:
    """Tells whether a proposed live replica can be stored.

    If its store has changed since the leader saw it catch up, it cannot. A replica that is already recorded with this
    incarnation may stay in any case.
    """
    if spu not in partition.spec.replicas:
        return False
    is_there = spu in spus and spus[spu].status.store_incarnation == incarnation != UNKNOWN_STORE
    return is_there or partition.status.live_replicas.get(spu) == incarnation


# elections


def _first_election(partition: Partition, spus: Spus) -> Decision:
    """Elects any replica that is online, since nothing was written yet."""
    online = _online(partition, spus)
    if not online:
        return _offline(partition, f"none of its SPUs is online: {_listed(partition.spec.replicas)}")
    live = {spu: spus[spu].status.store_incarnation for spu in online}
    return Decision(replace(elected_cleanly(partition, online[0], spus), live_replicas=live))


def _election(partition: Partition, spus: Spus, reports: PartitionReports, rules: ElectionRules) -> Decision:
    if rules.by_quorum:
        return _quorum_election(partition, spus, reports)
    live = partition.status.live_replicas
    present = [spu for spu in _online(partition, spus) if spu in live]
    sure = [spu for spu in present if is_sure(spu, live, spus)]
    if sure:
        decision = _among_sure_replicas(partition, sure, spus, reports)
    elif len(present) < len(live):
        decision = _offline(partition, _waits_for(live, present))
    else:
        decision = _among_unsure_replicas(partition, present, spus, reports)
    if decision.status.reason and rules.unclean:  # A reason says why no leader was found.
        return _unclean_election(partition, spus, reports) or decision
    return decision


def _among_sure_replicas(partition: Partition, sure: list[SpuId], spus: Spus, reports: PartitionReports) -> Decision:
    """Elects a sure replica. Each has everything that was committed, so the one with the longest log comes first."""
    left = [spu for spu in sure if not _is_silent(spu, spus, reports)]
    if not left:
        return _offline(partition, _none_leads("live replica", sure, spus, reports))
    return _with_longest_log(partition, left, spus, reports)


def _among_unsure_replicas(
    partition: Partition, present: list[SpuId], spus: Spus, reports: PartitionReports
) -> Decision:
    """Elects a live replica although none is sure, once all of them have responded.

    Each may have lost the end of what it had acknowledged, so only the one with the longest log has everything that is
    left. The epoch of the last entry does not count: entries that recovery has just stamped look newer and may be
    fewer. The election is marked as unclean, since a replica that was not live may have more committed records.
    """
    silent = [spu for spu in present if _is_silent(spu, spus, reports)]
    if silent:
        return _offline(partition, f"all live replicas stopped uncleanly, and not all respond: {_listed(silent)}")
    end_min = partition.spec.shelved_end
    if len(present) == 1 and not end_min:
        decision = Decision(elected_cleanly(partition, present[0], spus))
    else:
        decision = _with_longest_log_among(partition, present, spus, reports, all_must_respond=True, end_min=end_min)
    if decision.status.epoch == partition.status.epoch:
        return decision
    return replace(decision, status=replace(decision.status, was_unclean=True))


def _quorum_election(partition: Partition, spus: Spus, reports: PartitionReports) -> Decision:
    """Elects any replica of the newest copy set. It recovers what it lacks from enough other stores before it leads."""
    online = [spu for spu in _online(partition, spus) if spu in partition.spec.copy_set]
    left = [spu for spu in online if not _is_silent(spu, spus, reports)]
    if not left:
        none = _none_leads("replica", online, spus, reports) if online else "none of its replicas is online"
        return _offline(partition, none)
    decision = _with_longest_log(partition, left, spus, reports)
    live, leader = partition.status.live_replicas, decision.status.leader
    if decision.status.resolution is PartitionResolution.ELECTION or leader in live:
        return decision
    # The new leader is not recorded as sure: it may have lost its disk, and would later count as having everything.
    return Decision(with_live_replicas(decision.status, {**live, leader: UNKNOWN_STORE}))


def _unclean_election(partition: Partition, spus: Spus, reports: PartitionReports) -> Decision | None:
    """Elects a replica that may lack committed records, as the topic's configs allow. Records of others are lost.

    The replica must have responded. If this SC is the one that is cut off, the live replicas may still be serving.
    """
    left = [spu for spu in _online(partition, spus) if not _is_silent(spu, spus, reports)]
    if not left:
        return None
    decision = _with_longest_log_among(partition, left, spus, reports, end_min=partition.spec.shelved_end)
    if decision.status.resolution is PartitionResolution.ELECTION:
        return decision
    return Decision(elected_uncleanly(partition, decision.status.leader, spus))


def _with_longest_log(partition: Partition, candidates: list[SpuId], spus: Spus, reports: PartitionReports) -> Decision:
    """Elects the candidate with the longest log. A single candidate need not be asked."""
    if len(candidates) == 1:
        return Decision(elected_cleanly(partition, candidates[0], spus))
    return _with_longest_log_among(partition, candidates, spus, reports)


def _with_longest_log_among(
    partition: Partition,
    candidates: list[SpuId],
    spus: Spus,
    reports: PartitionReports,
    *,
    all_must_respond: bool = False,
    end_min: int = 0,
) -> Decision:
    """Elects the candidate with the longest log, the first of equals, once all have responded.

    A candidate that is still opening its log is not waited for, unless `all_must_respond`.

    A candidate whose log ends before `end_min` must not lead: it would write new records at offsets that are on
    shelves. If all logs end before, the election goes on until a replica with a longer log comes online.
    """
    reported = reported_log_ends(partition, candidates, spus, reports)
    ready = {spu: log_end for spu, log_end in reported.items() if log_end is not None}
    is_enough = len(ready) == len(candidates) if all_must_respond else bool(ready)
    able = {spu: log_end for spu, log_end in ready.items() if log_end >= end_min}
    is_election = partition.status.resolution is PartitionResolution.ELECTION
    if len(reported) < len(candidates) or not is_enough or not able or not is_election:
        is_none_able = len(ready) == len(candidates) and not able
        reason = f"its shelves go up to {end_min}, and the logs of these end before: {_listed(candidates)}"
        status = replace(
            partition.status, resolution=PartitionResolution.ELECTION, reason=reason if is_none_able else ""
        )
        return Decision(status, tuple(spu for spu in candidates if spu not in reported))
    return Decision(elected_cleanly(partition, max(able, key=able.__getitem__), spus))


def elected_cleanly(partition: Partition, leader: SpuId, spus: Spus) -> PartitionStatus:
    return replace(
        partition.status,
        resolution=PartitionResolution.CANDIDATE_FOUND,
        leader=leader,
        epoch=Epoch(partition.status.epoch + 1),
        incarnation=spus[leader].status.incarnation,
        reason="",
    )


def elected_uncleanly(partition: Partition, leader: SpuId, spus: Spus) -> PartitionStatus:
    """Returns the status with `leader` as the only live replica, since the others may have records that it lacks."""
    status = replace(elected_cleanly(partition, leader, spus), was_unclean=True)
    return with_live_replicas(status, {leader: spus[leader].status.store_incarnation})


def is_unclean(before: Partition, elected: Partition) -> bool:
    """Tells whether the elected leader may lack committed records. Only such elections remove live replicas."""
    stay = elected.status.live_replicas.keys()
    return before.spec.replicas == elected.spec.replicas and not before.status.live_replicas.keys() <= stay


def with_live_replicas(status: PartitionStatus, live: LiveReplicas) -> PartitionStatus:
    return replace(status, live_replicas=live, live_version=status.live_version + 1)


def offline(partition: Partition, reason: str) -> PartitionStatus:
    return replace(partition.status, resolution=PartitionResolution.OFFLINE, reason=reason)


def _offline(partition: Partition, reason: str) -> Decision:
    return Decision(offline(partition, reason))


def _waits_for(live: LiveReplicas, present: list[SpuId]) -> str:
    if not present:
        return f"none of its live replicas is online: {_listed(live)}"
    away = _listed(spu for spu in live if spu not in present)
    return f"its live replicas that are online stopped uncleanly: {_listed(present)}; it waits for the others: {away}"


def _none_leads(kind: str, asked: list[SpuId], spus: Spus, reports: PartitionReports) -> str:
    failed = [spu for spu in asked if reports.has_failed(spus[spu])]
    silent = [spu for spu in asked if spu not in failed]
    reasons = [f"storage has failed: {_listed(failed)}"] if failed else []
    reasons += [f"no {kind} responds: {_listed(silent)}"] if silent else []
    return "; ".join(reasons)


# reports of SPUs


def _online(partition: Partition, spus: Spus) -> list[SpuId]:
    """Returns the replicas that are online: the last leader first, then the preferred one, then the others in order."""
    replicas = partition.spec.replicas
    preferred = dict.fromkeys((partition.status.leader, partition.spec.initial_leader, *replicas))
    return [spu for spu in preferred if spu in replicas and spu in spus and spus[spu].is_online]


def reported_log_ends(
    partition: Partition, candidates: Iterable[SpuId], spus: Spus, reports: PartitionReports
) -> dict[SpuId, int | None]:
    """Returns the log ends that current processes of the candidates have reported for this election."""
    return {
        spu: reported.log_end
        for spu in candidates
        if (reported := reports.log_ends.get(spu)) is not None
        and (reported.epoch, reported.incarnation) == (partition.status.epoch, spus[spu].status.incarnation)
    }


def _is_silent(spu: SpuId, spus: Spus, reports: PartitionReports) -> bool:
    """Tells whether the SPU's process did not respond in time in this round, or reported that its storage failed."""
    return reports.silent.get(spu) == spus[spu].status.incarnation or reports.has_failed(spus[spu])


def _listed(spus: Iterable[SpuId]) -> str:
    return ", ".join(map(str, spus))
