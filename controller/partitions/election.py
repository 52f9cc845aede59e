"""Who leads a partition, and which replicas are live: the rules, and nothing else.

A live replica has all that was acknowledged as long as its store is the one that was seen to have caught up: it is
*sure*. Whichever sure one leads, nothing is lost, so the one with the most is taken, and when it does not respond the
next. Only when every live replica's store has started anew without what it may have lost, all of them are waited for,
and then the one with the most has all. An election takes nobody out of the live set: the candidate may be gone itself,
and who was taken out would have been the last to have it all. The leader does that, as the first thing it reports.
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
"""Of a live replica of which nobody has seen yet that its store has all."""


class ElectionRules(Struct, frozen=True):
    """What a topic's configs say of elections."""

    by_quorum: bool = False
    """Not the live replicas commit but any W of N."""
    unclean: bool = False
    """Rather a leader that lacks something than none."""


DEFAULT_RULES = ElectionRules()


class Decision(Struct, frozen=True):
    status: PartitionStatus
    asks: tuple[SpuId, ...] = ()
    """Those whose log ends must be known to go on."""


def decide(
    partition: Partition, spus: Spus, reports: PartitionReports, rules: ElectionRules = DEFAULT_RULES
) -> Decision:
    """What the status is to be, given the SPUs and what they last said; the same from the same, whoever asks."""
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
    """Whether the one that was elected is still there, in the process that was elected, and has not given up."""
    status = partition.status
    found = spus.get(status.leads)
    if found is None or not found.is_online or found.status.incarnation != status.incarnation:
        return False
    return not reports.has_given_up(found, status.epoch)


def is_current(report: LiveReplicasReported | ShelvesReported, partition: Partition) -> bool:
    """Whether the leader says it of this epoch: nobody else, and of no other epoch, has anything to say."""
    status = partition.status
    said_by = (report.spu, report.incarnation, report.epoch)
    return said_by == (status.leader, status.incarnation, status.epoch)


def is_sure(spu: SpuId, live: LiveReplicas, spus: Spus) -> bool:
    """Whether it is online with the store that had all."""
    found = spus.get(spu)
    return found is not None and found.is_online and found.status.store_incarnation == live.get(spu)


def can_return(partition: Partition, spus: Spus, reports: PartitionReports) -> bool:
    """Whether the preferred replica does not lead, and could at once."""
    status, preferred = partition.status, partition.spec.initial_leader
    return (
        status.resolution is PartitionResolution.ONLINE
        and status.leader != preferred
        and is_sure(preferred, status.live_replicas, spus)
        and not _is_silent(preferred, spus, reports)
    )


# reports


def status_after_report(partition: Partition, spus: Spus, report: LiveReplicasReported) -> PartitionStatus:
    """The leader leads. Its live replicas are stored if it made them from those that are stored now; if they cannot be,
    the version rises all the same, so that it knows and may propose others."""
    status = replace(partition.status, resolution=PartitionResolution.ONLINE, reason="")
    stored, leader = status.live_replicas, status.leader
    of_leader = {leader: spus[leader].status.store_incarnation}  # it has all that there is
    if not report.members:
        live = {**stored, **of_leader}
        return status if live == stored else with_live_replicas(status, live)
    if report.version != status.live_version:
        return status  # it was stored already, or never will be
    live = {spu: incarnation or stored.get(spu, UNKNOWN_STORE) for spu, incarnation in report.members} | of_leader
    if not all(_can_be_live(spu, incarnation, partition, spus) for spu, incarnation in live.items()):
        live = dict(stored)
    live = {spu: live[spu] for spu in partition.spec.replicas if spu in live}
    return with_live_replicas(status, live)


def _can_be_live(spu: SpuId, incarnation: str, partition: Partition, spus: Spus) -> bool:
    """A store that had caught up and has started anew since is not what the leader saw; but one that stands there
    already stays as it is, whatever happened to it."""
    if spu not in partition.spec.replicas:
        return False
    is_there = spu in spus and spus[spu].status.store_incarnation == incarnation != UNKNOWN_STORE
    return is_there or partition.status.live_replicas.get(spu) == incarnation


# elections


def _first_election(partition: Partition, spus: Spus) -> Decision:
    """Nothing was written yet: any replica has it all."""
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
    if decision.status.reason and rules.unclean:  # nobody was found, and that is why
        return _unclean_election(partition, spus, reports) or decision
    return decision


def _among_sure_replicas(partition: Partition, sure: list[SpuId], spus: Spus, reports: PartitionReports) -> Decision:
    """Each has all that was acknowledged: the one with the smallest lag, then the next one."""
    left = [spu for spu in sure if not _is_silent(spu, spus, reports)]
    if not left:
        return _offline(partition, _none_leads("live replica", sure, spus, reports))
    return _with_longest_log(partition, left, spus, reports)


def _among_unsure_replicas(
    partition: Partition, present: list[SpuId], spus: Spus, reports: PartitionReports
) -> Decision:
    """Each may have lost the end of what it acknowledged, so only the one with the most is known to have all that is
    left of it. (The epoch of the last entry does not count: what recovery had just stamped looks newer, and may be
    less.) Who was not live may have more, and know that it was committed."""
    silent = [spu for spu in present if _is_silent(spu, spus, reports)]
    if silent:
        return _offline(partition, f"all live replicas stopped uncleanly, and not all respond: {_listed(silent)}")
    end_min = partition.spec.shelved_end
    if len(present) == 1 and not end_min:
        decision = Decision(elected_cleanly(partition, present[0], spus))
    else:
        decision = _with_longest_log_among(partition, present, spus, reports, all_must_say=True, end_min=end_min)
    if decision.status.epoch == partition.status.epoch:
        return decision
    return replace(decision, status=replace(decision.status, was_unclean=True))


def _quorum_election(partition: Partition, spus: Spus, reports: PartitionReports) -> Decision:
    """Any whose copy counts may lead: it asks enough others, before it does, for what it lacks."""
    online = [spu for spu in _online(partition, spus) if spu in partition.spec.copy_set]
    left = [spu for spu in online if not _is_silent(spu, spus, reports)]
    if not left:
        none = _none_leads("replica", online, spus, reports) if online else "none of its replicas is online"
        return _offline(partition, none)
    decision = _with_longest_log(partition, left, spus, reports)
    live, leader = partition.status.live_replicas, decision.status.leader
    if decision.status.resolution is PartitionResolution.ELECTION or leader in live:
        return decision
    # Not as a store that is known to have all: it may have lost its disk, and would be asked for what was on it.
    return Decision(with_live_replicas(decision.status, {**live, leader: UNKNOWN_STORE}))


def _unclean_election(partition: Partition, spus: Spus, reports: PartitionReports) -> Decision | None:
    """Better what one of them has than nothing: what only others had is lost, and who wanted it so said it. It
    must have answered: if it is this SC that is cut off, the live ones may still serve."""
    left = [spu for spu in _online(partition, spus) if not _is_silent(spu, spus, reports)]
    if not left:
        return None
    decision = _with_longest_log_among(partition, left, spus, reports, end_min=partition.spec.shelved_end)
    if decision.status.resolution is PartitionResolution.ELECTION:
        return decision
    return Decision(elected_uncleanly(partition, decision.status.leader, spus))


def _with_longest_log(partition: Partition, candidates: list[SpuId], spus: Spus, reports: PartitionReports) -> Decision:
    """One alone need not be asked."""
    if len(candidates) == 1:
        return Decision(elected_cleanly(partition, candidates[0], spus))
    return _with_longest_log_among(partition, candidates, spus, reports)


def _with_longest_log_among(
    partition: Partition,
    candidates: list[SpuId],
    spus: Spus,
    reports: PartitionReports,
    *,
    all_must_say: bool = False,
    end_min: int = 0,
) -> Decision:
    """The one with the most, the first of equals; one that is not ready need not be waited for.

    `end_min`: whoever has less would write other records at offsets that are on shelves, and take what is there for its
    own. Where all have less, others may come that have more: until then the election goes on.
    """
    said = reported_log_ends(partition, candidates, spus, reports)
    ready = {spu: log_end for spu, log_end in said.items() if log_end is not None}
    is_enough = len(ready) == len(candidates) if all_must_say else bool(ready)
    able = {spu: log_end for spu, log_end in ready.items() if log_end >= end_min}
    is_election = partition.status.resolution is PartitionResolution.ELECTION
    if len(said) < len(candidates) or not is_enough or not able or not is_election:
        is_nobody_able = len(ready) == len(candidates) and not able
        reason = f"its shelves go up to {end_min}, and the logs of these end before: {_listed(candidates)}"
        status = replace(
            partition.status, resolution=PartitionResolution.ELECTION, reason=reason if is_nobody_able else ""
        )
        return Decision(status, tuple(spu for spu in candidates if spu not in said))
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
    """The others are no longer live: they have what the leader never had."""
    status = replace(elected_cleanly(partition, leader, spus), was_unclean=True)
    return with_live_replicas(status, {leader: spus[leader].status.store_incarnation})


def is_unclean(before: Partition, elected: Partition) -> bool:
    """Whether somebody leads who may lack what was acknowledged: no other election takes anybody out."""
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


# what is known of an SPU


def _online(partition: Partition, spus: Spus) -> list[SpuId]:
    """The leader as long as it can, then the initial one and the others as the spec has them."""
    replicas = partition.spec.replicas
    preferred = dict.fromkeys((partition.status.leader, partition.spec.initial_leader, *replicas))
    return [spu for spu in preferred if spu in replicas and spu in spus and spus[spu].is_online]


def reported_log_ends(
    partition: Partition, candidates: Iterable[SpuId], spus: Spus, reports: PartitionReports
) -> dict[SpuId, int | None]:
    """Of those that said it in this election, in the process that is there now."""
    return {
        spu: said.log_end
        for spu in candidates
        if (said := reports.log_ends.get(spu)) is not None
        and (said.epoch, said.incarnation) == (partition.status.epoch, spus[spu].status.incarnation)
    }


def _is_silent(spu: SpuId, spus: Spus, reports: PartitionReports) -> bool:
    """Whether this process was given its time to respond, in this round, or has said that it cannot."""
    return reports.silent.get(spu) == spus[spu].status.incarnation or reports.has_failed(spus[spu])


def _listed(spus: Iterable[SpuId]) -> str:
    return ", ".join(map(str, spus))
