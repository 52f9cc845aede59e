"""Judges a cluster: what is wrong with it, and what a person can do about each thing."""

from collections.abc import Iterable, Iterator

from tailrace.cli.output.printing import counted
from tailrace.controller.objects.objects import SpuResolution, TopicResolution, TriggerResolution

from .cluster_facts import ClusterFacts, PartitionFacts, SpuFacts
from .findings import Finding, Level, listed

_WAITING = (TopicResolution.INIT.value, TopicResolution.PENDING.value)


def faults_of(facts: ClusterFacts) -> list[Finding]:
    """Returns everything that is wrong with a cluster, the most important first."""
    servers = [*_spu_faults(facts), *_group_faults(facts)]
    found = [*servers, *_topic_faults(facts), *_partition_faults(facts), *_trigger_faults(facts)]
    return sorted(found, key=lambda each: each.level is not Level.PROBLEM)


def overview(facts: ClusterFacts) -> list[tuple[str, str]]:
    """Returns the lines that say how much there is of everything."""
    online = [each for each in facts.spus if each.is_online]
    internal = {each.name for each in facts.topics if each.is_internal}
    topics = counted(len(facts.topics) - len(internal), "topic")
    led = sum(each.leader is not None for each in facts.partitions)
    live = _online(facts)
    whole = sum(_live_count(each, live) == len(each.replicas) for each in facts.partitions)
    count = len(facts.partitions)
    return [
        ("SPUs", f"{len(online)} of {len(facts.spus)} online" if facts.spus else "none"),
        ("Clients connect to", listed([each.addresses[0] for each in online if each.addresses], 6)),
        ("Topics", topics + (f", and {len(internal)} internal" if internal else "")),
        ("Partitions", f"{count}: {led} with a leader, {whole} with all replicas live" if count else "none"),
        *([("Triggers", _triggers_text(facts))] if facts.triggers else []),
    ]


def _triggers_text(facts: ClusterFacts) -> str:
    paused = sum(each.state == TriggerResolution.PAUSED for each in facts.triggers)
    wanted, ready = (sum(getattr(each, name) for each in facts.triggers) for name in ("replicas", "ready"))
    replicas = f"{len(facts.triggers)}, with {ready} of {counted(wanted, 'replica')} ready"
    return f"{replicas}; {paused} paused" if paused else replicas


def _spu_faults(facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.spus:
        yield Finding(
            Level.PROBLEM,
            "SPUs",
            "No SPU is registered, so clients have no broker to connect to.",
            "Register one with `tailrace spu register`, or create a group with `tailrace spu-group create`.",
        )
    for spu in facts.spus:
        about = f"SPU {spu.id}"
        reason = f": {spu.reason}" if spu.reason else ""
        if spu.is_online and spu.reason:
            yield Finding(
                Level.PROBLEM,
                about,
                f"{about} has a problem{reason}.",
                "Free or add storage: see `tailrace topic list`, and the storage size of the SPU.",
            )
        elif spu.state == SpuResolution.INIT:
            yield Finding(Level.PROBLEM, about, f"{about} is registered and has never connected.", _how_to_start(spu))
        elif not spu.is_online:
            yield Finding(Level.PROBLEM, about, f"{about} is offline{reason}.", _how_to_start(spu))


def _how_to_start(spu: SpuFacts) -> str:
    if spu.group:
        return (
            f"The SPU group {spu.group} starts it; if it does not come back, the log of `tailrace up` says why "
            "(spu_process_ended)."
        )
    return f"Start its process with `tailrace serve spu --id {spu.id} …`; its log says why it ended."


def _group_faults(facts: ClusterFacts) -> Iterator[Finding]:
    for group in facts.groups:
        about = f"SPU group {group.name}"
        if group.is_invalid:
            yield Finding(
                Level.PROBLEM,
                about,
                f"The {about} is Invalid: {group.reason}.",
                "Delete it and create it with other ids, or free its ids with `tailrace spu unregister`.",
            )
        elif group.reason:
            yield Finding(
                Level.WARNING,
                about,
                f"The {about} shrinks: {group.reason}.",
                f"Watch it with `tailrace spu-group describe {group.name} --watch`.",
            )


def _topic_faults(facts: ClusterFacts) -> Iterator[Finding]:
    for topic in facts.topics:
        about = f"topic {topic.name}"
        if topic.state in _WAITING:
            yield Finding(Level.WARNING, about, f"The {about} is being created.", "Wait for a moment.")
        elif topic.state == TopicResolution.INSUFFICIENT_RESOURCES:
            yield Finding(
                Level.PROBLEM,
                about,
                f"The {about} has no replicas yet: {topic.reason or 'there are too few SPUs'}.",
                f"Start more SPUs, or run `tailrace topic alter {topic.name} --replication-factor N`.",
            )
        elif topic.state != TopicResolution.PROVISIONED:
            yield Finding(
                Level.PROBLEM,
                about,
                f"The {about} is {topic.state}: {topic.reason}.",
                f"Correct it with `tailrace topic alter {topic.name}` or `tailrace apply`, or delete it.",
            )


def _partition_faults(facts: ClusterFacts) -> Iterator[Finding]:
    topics = {each.name: each for each in facts.topics}
    online = _online(facts)
    leaderless, refusing, lacking = [], [], []
    for each in facts.partitions:
        live = _live_count(each, online)
        topic = topics.get(each.topic)
        if each.leader is None:
            leaderless.append(each)
        elif topic is not None and live < topic.min_insync:
            refusing.append(each)
        elif live < len(each.replicas):
            lacking.append(each)
    if leaderless:
        yield Finding(
            Level.PROBLEM,
            "partitions",
            f"{counted(len(leaderless), 'partition has', 'partitions have')} no leader, so clients can neither write "
            f"nor read: {_names(leaderless)}.",
            _how_to_lead(leaderless, online),
        )
    if refusing:
        yield Finding(
            Level.PROBLEM,
            "partitions",
            f"{counted(len(refusing), 'partition refuses', 'partitions refuse')} producers with acks=all, because "
            f"fewer replicas are live than min.insync.replicas: {_names(refusing)}.",
            _how_to_complete(refusing, online),
        )
    if lacking:
        yield Finding(
            Level.WARNING,
            "partitions",
            f"{counted(len(lacking), 'partition lacks', 'partitions lack')} live replicas: {_names(lacking)}.",
            _how_to_complete(lacking, online),
        )


def _trigger_faults(facts: ClusterFacts) -> Iterator[Finding]:
    for trigger in facts.triggers:
        about = f"trigger {trigger.name}"
        if trigger.stopped:
            shards = "shard " if len(trigger.stopped) == 1 else "shards "
            shards += listed([str(each) for each in trigger.stopped])
            yield Finding(
                Level.PROBLEM,
                about,
                f"The {about} has stopped at an event in {shards}.",
                f"`tailrace trigger explain {trigger.name}` says why, and how to go on.",
            )
        if trigger.state == TriggerResolution.WAITING:
            yield Finding(
                Level.WARNING,
                about,
                f"The {about} waits: {trigger.reason}.",
                "Create the topic, or delete the trigger.",
            )
        elif trigger.ready < trigger.replicas and trigger.state != TriggerResolution.REDEPLOYING:
            yield Finding(
                Level.PROBLEM if not trigger.ready else Level.WARNING,
                about,
                f"The {about} has {trigger.ready} of {counted(trigger.replicas, 'replica')} that handle records.",
                f"`tailrace trigger explain {trigger.name}` says why; new replicas need a moment.",
            )


def _online(facts: ClusterFacts) -> frozenset[int]:
    return frozenset(each.id for each in facts.spus if each.is_online)


def _live_count(partition: PartitionFacts, online: frozenset[int]) -> int:
    """Counts the live replicas of a partition that are on SPUs that are online."""
    return sum(spu in online for spu in partition.live)


def _names(partitions: Iterable[PartitionFacts]) -> str:
    return listed([each.name for each in partitions])


def _how_to_lead(leaderless: list[PartitionFacts], online: frozenset[int]) -> str:
    able = sorted({spu for each in leaderless for spu in each.live or each.replicas} - online)
    if able:
        return f"Start {_spus(able)}: only live replicas may lead. `tailrace partition describe` says more."
    return "An election may be going on: look again, or see `tailrace partition list`."


def _how_to_complete(lacking: list[PartitionFacts], online: frozenset[int]) -> str:
    away = sorted({spu for each in lacking for spu in each.replicas} - online)
    if away:
        return f"Start {_spus(away)}, or let others take over with `--replace-after` of `tailrace serve sc`."
    return "The replicas catch up: watch them with `tailrace partition list --lagging --watch`."


def _spus(ids: list[int]) -> str:
    return f"SPU {ids[0]}" if len(ids) == 1 else f"the SPUs {listed(ids)}"
