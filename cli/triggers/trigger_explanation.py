"""Explains in sentences what a trigger does with its shards, and why a shard makes no progress."""

from tailrace.cli.output.printing import counted, duration_text
from tailrace.cluster.stream_state.replica_report import ReplicaReport, ReplicaState, ShardReport, ShardState
from tailrace.cluster.stream_state.stream_state import StreamMember
from tailrace.controller.objects.objects import TriggerResolution

from .trigger_facts import ReplicaFacts, ShardFacts, TriggerFacts

LATE_HEARTBEATS_SECONDS = 5.0
"""A member whose heartbeat is older than this has missed at least one by default."""


def explanation(facts: TriggerFacts) -> list[str]:
    """Explains what the whole trigger does: what stops all of it, or each replica and shard that has trouble."""
    stopped = _why_nothing_runs(facts)
    if stopped is not None:
        return [stopped]
    sentences = [_status(facts), *(_replica(each) for each in facts.replicas if _has_trouble(each))]
    still = [shard for shard in facts.shards if not _makes_progress(shard)]
    for shard in still:
        sentences += shard_explanation(facts, shard.number)
    sentences = list(dict.fromkeys(sentences))
    if facts.shards and not still:
        lag = sum(shard.report.lag for shard in facts.shards if shard.report is not None)
        waiting = counted(lag, "record waits", "records wait") if lag else "no record waits"
        sentences.append(f"{counted(len(facts.shards), 'shard makes progress', 'shards make progress')}; {waiting}.")
    return sentences


def shard_explanation(facts: TriggerFacts, number: int) -> list[str]:
    """Explains what happens to one shard, and what a person can do."""
    stopped = _why_nothing_runs(facts)
    if stopped is not None:
        return [stopped]
    shard = facts.shards[number]
    if not shard.has_leader:
        topic = facts.trigger.spec.topic
        return [
            f"Shard {number} cannot be read, because its partition has no leader{_because(shard.reason)}. See "
            f"`tailrace partition describe {topic}/{number}`."
        ]
    if shard.owner is None:
        return _unowned(facts, number)
    if shard.report is None:
        return [_owner_without_report(shard, shard.owner)]
    replica = facts.replica(shard.owner.member_id)
    sentences = [_progress(facts, shard.owner.member_id, shard.report)]
    if shard.report.held_back:
        sentences.append(_held_back(facts, shard.report))
    if replica is not None and replica.report is not None and _waits_for_workers(replica.report, shard.report):
        sentences.append(
            f"{replica.name} has no free worker ({counted(replica.report.workers, 'worker')}); more replicas, or "
            "max_workers, would help."
        )
    if shard.owner_age > LATE_HEARTBEATS_SECONDS:
        sentences.append(_late(shard.owner, shard.owner_age))
    return sentences


def _why_nothing_runs(facts: TriggerFacts) -> str | None:
    """Returns why no shard makes any progress, or None."""
    trigger = facts.trigger
    match trigger.status.resolution:
        case TriggerResolution.PAUSED:
            return f"The trigger is paused. `tailrace trigger resume {trigger.name}` starts its replicas again."
        case TriggerResolution.WAITING:
            return f"The trigger waits: {trigger.status.reason}. It starts its replicas when the topic exists."
        case TriggerResolution.NONE:
            return "The SC has not decided about the trigger yet."
    if any(each.current is not None for each in facts.replicas):
        return None
    ends = [_replica(each) for each in facts.replicas if each.process]
    if not ends:
        return (
            "No replica runs. The SC starts none by itself, because it is not a part of `tailrace up`: start each one "
            f"with `tailrace trigger run --deployed {trigger.name} --replica NAME`."
        )
    return " ".join(["No replica has reported yet.", *ends])


def _status(facts: TriggerFacts) -> str:
    trigger = facts.trigger
    if trigger.status.resolution is TriggerResolution.RUN_BY_HAND:
        return f"The trigger is not deployed; {counted(trigger.spec.replicas, 'replica runs', 'replicas run')} by hand."
    replicas = counted(len(trigger.status.revisions), "replica")
    if trigger.status.resolution is TriggerResolution.REDEPLOYING:
        done = sum(revision == trigger.spec.revision for revision in trigger.status.revisions)
        return (
            f"The trigger is switching to revision {trigger.spec.revision}: {done} of {replicas} should run it"
            f"{_because(trigger.status.reason)}."
        )
    return f"The trigger has {replicas}{_because(trigger.status.reason)}."


def _has_trouble(replica: ReplicaFacts) -> bool:
    report = replica.current
    return report is None or report.state is not ReplicaState.MEMBER


def _replica(replica: ReplicaFacts) -> str:
    report = replica.current
    if report is None:
        process = f"; its process: {replica.process}" if replica.process else ""
        return f"{replica.name} has not reported for a while{process}."
    match report.state:
        case ReplicaState.STARTING:
            return f"{replica.name} is starting{_because(report.reason)}."
        case ReplicaState.WAITING:
            return f"{replica.name} has no shards{_because(report.reason)}."
        case ReplicaState.STOPPING:
            return f"{replica.name} is stopping{_because(report.reason)}."
    return f"{replica.name} handles {counted(len(report.shards), 'shard')}."


def _unowned(facts: TriggerFacts, number: int) -> list[str]:
    sentences = [f"No replica has shard {number}."]
    missing = [each for each in facts.replicas if each.revision is not None and _has_trouble(each)]
    sentences += map(_replica, missing)
    if not missing:
        sentences.append("A replica takes it with its next heartbeat, or as soon as it runs.")
    return sentences


def _owner_without_report(shard: ShardFacts, owner: StreamMember) -> str:
    begin = f"{owner.member_id} has shard {shard.number}, but has not reported for a while."
    return f"{begin} {_late(owner, shard.owner_age)}"


def _late(owner: StreamMember, age: float) -> str:
    timeout = owner.session_timeout_ms / 1000
    heartbeat = f"The last heartbeat of {owner.member_id} is {_seconds(age)} old"
    if not timeout:
        return f"{heartbeat}."
    if age > timeout:
        return (
            f"{heartbeat}, which is more than its session timeout of {timeout:g} s: another replica takes its shards "
            "with its next heartbeat."
        )
    return (
        f"{heartbeat}. If it does not come back, its shards are free when its session timeout of {timeout:g} s is "
        f"over, in {_seconds(timeout - age)}."
    )


def _progress(facts: TriggerFacts, replica: str, report: ShardReport) -> str:
    shard, event = f"Shard {report.shard}", f"the event at offset {report.offset}"
    error = f": {report.error}" if report.error else ""
    behind = (
        f"{counted(report.lag, 'record waits', 'records wait')}, the oldest for {duration_text(report.lag_seconds)}"
    )
    match report.state:
        case ShardState.CLAIMING:
            return f"{replica} looks for the offset at which {shard.lower()} goes on{error}."
        case ShardState.RETRYING:
            failed = counted(report.attempt, "attempt")
            return f"{shard} waits: {event} has failed in {failed} and is handled again after a pause{error}."
        case ShardState.STOPPED:
            return f"{shard} has stopped: {event} has failed for good{error}. {_how_to_go_on(facts, report)}"
        case ShardState.BLOCKED:
            oldest = f"the oldest at offset {report.oldest_open} for {duration_text(report.oldest_open_seconds)}"
            opened = counted(report.open_events, "event is", "events are")
            return f"{shard} waits until events are acknowledged: {opened} open, {oldest}."
        case ShardState.UNREACHABLE:
            return f"{replica} cannot read {shard.lower()}{error}."
        case ShardState.RELEASING:
            return f"{replica} gives {shard.lower()} to another replica when its running events have ended."
    if report.error:
        return f"{replica} handles {shard.lower()}, but cannot store what comes of it{error}."
    if report.lag:
        return f"{replica} handles {shard.lower()}; {behind}."
    return f"{replica} has handled all records of {shard.lower()}, and waits for new ones."


def _held_back(facts: TriggerFacts, report: ShardReport) -> str:
    waiting = counted(report.held_back, "offset after them waits", "offsets after them wait")
    return (
        f"{waiting} for the end of an open transaction: `tailrace transaction explain {facts.trigger.spec.topic}` says "
        "whose it is."
    )


def _how_to_go_on(facts: TriggerFacts, report: ShardReport) -> str:
    """Says how a person can go on after an event at which a shard has stopped."""
    name, spec = facts.trigger.name, facts.trigger.spec
    reset = (
        f"`tailrace group reset-offsets {spec.group} --topic {spec.topic}:{report.shard} "
        f"--to-offset {report.offset + 1} --execute`"
    )
    if facts.trigger.status.resolution is TriggerResolution.RUN_BY_HAND:
        return f"Run a function that handles it, or stop the replicas and skip it: {reset}."
    return (
        f"Deploy a function that handles it, or skip it: `tailrace trigger pause {name}`, {reset}, "
        f"`tailrace trigger resume {name}`."
    )


def _makes_progress(shard: ShardFacts) -> bool:
    return (
        shard.has_leader
        and shard.report is not None
        and shard.report.state in (ShardState.READING, ShardState.HANDLING)
        and not shard.report.error
        and shard.owner_age <= LATE_HEARTBEATS_SECONDS
    )


def _waits_for_workers(replica: ReplicaReport, shard: ShardReport) -> bool:
    return shard.lag > 0 and 0 < replica.workers <= replica.busy_workers


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"
