"""What a seed simulates: the shape of the cluster, the topic's configs, the load, and the faults."""

import math
from collections.abc import Sequence
from random import Random

from msgspec import Struct, field

from .determinism import random_of
from .faults import CATALOGUE, Catalogue, Fault, plan
from .group_faults import GROUP_CATALOGUE
from .outages import OUTAGES
from .simulated_group import Timeouts

FAULTS_BEGIN = 1.5
FAULTS_END = 9.0


class Scenario(Struct, frozen=True):
    seed: int
    policy: str = "live"
    replicas: int = 3
    spus: int = 3
    scs: int = 1
    partitions: int = 1
    topic: dict[str, str] = field(default_factory=dict)
    broker: dict[str, str] = field(default_factory=dict)
    buffer_bytes: int = 64 * 1024
    link_seconds: float = 0.0005
    """The longest delay of a message."""
    sync_seconds: float = 0.002
    """The longest delay of a disk."""
    store_seconds: float = 0.002
    """The longest delay of an SC's store, in each direction."""
    patience_seconds: float = 2.0
    """How long clients wait for a response."""
    batches: int = 40
    """The number of batches of each producer."""
    is_hasty: bool = False
    """Whether some producers do not wait until their records are committed."""
    has_movers: bool = False
    """Whether replicas are moved to other SPUs: those of the topic, or in a group scenario those of the internal
    topic."""
    replace_after_seconds: float = math.inf
    """After what time offline an SPU loses its replicas to others."""
    has_erasers: bool = False
    """Whether clients delete records."""
    partitions_added: int = 0
    """The number of partitions that are added during the faults."""
    has_meddlers: bool = False
    """Whether clients change configs, and delete and recreate topics."""
    has_flips: bool = False
    """Whether bits flip at rest, which are then scrubbed for all the time."""
    has_quorum_readers: bool = False
    """Whether there are quorum readers, which need no leader."""
    has_small_turns: bool = False
    """Whether work is split so finely that a few records take many turns and portions."""
    has_shelves: bool = False
    """Whether old segments are put on shelves, and soon deleted from the replicas."""
    copies_early: bool = False
    """Whether a replica that lacks a few batches copies them from followers."""
    groups: Sequence[str] = ()
    """The kinds of groups, if the scenario tests groups."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """The timeouts of the groups' members."""
    faults: Sequence[Fault] = ()
    faults_end: float = FAULTS_END
    """When all faults are over."""

    @property
    def is_synced_before_acknowledging(self) -> bool:
        return "1" in (self.topic.get("flush.messages"), self.broker.get("log.flush.interval.messages"))

    @property
    def is_compacted(self) -> bool:
        return self.topic.get("cleanup.policy") == "compact"

    @property
    def is_retained(self) -> bool:
        """Whether old records are deleted by retention."""
        return not {"retention.ms", "retention.bytes"}.isdisjoint(self.topic)

    @property
    def may_lose(self) -> bool:
        """Whether a replica may be elected that lacks acknowledged records."""
        return self.topic.get("unclean.leader.election.enable") == "true"

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics."""
        return self.partitions + (int(self.broker["offsets.topic.num.partitions"]) if self.groups else 0)

    @property
    def _moves(self) -> str:
        moves = "replicas are moved; " * self.has_movers
        after = self.replace_after_seconds
        return moves if after == math.inf else f"{moves}an SPU that is offline for {after:g} s is replaced; "

    def describe(self) -> str:
        meddling = "configs are changed, and the topic is deleted for a while; " * self.has_meddlers
        flips = "bits flip at rest; " * self.has_flips
        turns = "turns are small; " * self.has_small_turns
        copies = "a few batches are copied from followers; " * self.copies_early
        shelves = "old segments are put on shelves; " * self.has_shelves
        quorums = "there are quorum readers; " * self.has_quorum_readers
        configs = ", ".join(f"{name}={value}" for name, value in (self.topic | self.broker).items())
        added = f"{self.partitions_added} of them added later; " * (self.partitions_added > 0)
        groups = f"groups: {', '.join(self.groups)}; " if self.groups else ""
        return (
            f"seed {self.seed}: {self.spus} SPUs, {self.scs} SC{'s' * (self.scs > 1)}, {self.partitions} "
            f"partition{'s' * (self.partitions > 1)} of {self.replicas} replica{'s' * (self.replicas > 1)}; "
            f"{groups}{configs}; {added}{self._moves}{meddling}{flips}{shelves}{quorums}{turns}{copies}"
            f"links take {self.link_seconds * 1000:g} ms, disks {self.sync_seconds * 1000:g} ms, "
            f"the store {self.store_seconds * 1000:g} ms, clients wait {self.patience_seconds:g} s"
        )


def scenario_of(
    seed: int,
    policy: str = "live",
    *,
    replicas: int = 3,
    faults: Sequence[str] = (*CATALOGUE, *OUTAGES),
    may_shelve: bool = True,
) -> Scenario:
    chance = random_of(seed, "scenario")
    spus = max(3, replicas)
    partitions = chance.choice((1, 1, 2))
    batches = 40
    if random_of(seed, "many").random() < 0.1:
        partitions, batches = 6, 15
    topic = {"min.insync.replicas": str(chance.choice((1, 2, 2)) if replicas > 1 else 1)}
    if policy != "live":
        topic["replication.policy"] = policy
    if chance.random() < 0.25:
        topic["flush.messages"] = "1"
    if chance.random() < 0.5:
        topic["segment.ms"] = str(chance.choice((100, 500, 2000)))
    if chance.random() < 0.6:
        topic["lrs.max.lag.ms"] = str(chance.choice((400, 1000, 3000)))
    if chance.random() < 0.3:
        topic["lrs.max.lag.records"] = str(chance.choice((3, 30)))
    small = random_of(seed, "segments")
    if small.random() < 0.3:
        topic["internal.segment.bytes"] = str(small.choice((200, 1000, 4000)))
        topic["index.interval.bytes"] = str(small.choice((0, 200, 4096)))
    if policy == "live" and replicas > 1 and random_of(seed, "unclean").random() < 0.15:
        topic |= {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "lrs.max.lag.ms": "400"}
    may_lose = "unclean.leader.election.enable" in topic
    broker: dict[str, str] = {}
    retention = random_of(seed, "retention")
    if retention.random() < 0.2 and not may_lose:
        broker["log.retention.check.interval.ms"] = str(retention.choice((50, 300)))
        topic["internal.segment.bytes"] = str(retention.choice((200, 1000)))
        name, values = retention.choice((("retention.ms", (300, 2000)), ("retention.bytes", (400, 3000))))
        topic[name] = str(retention.choice(values))
    moves = random_of(seed, "moves")
    moves_replicas = replicas > 1 and not may_lose and moves.random() < 0.25
    replace_after_seconds = math.inf
    if moves_replicas:
        spus += moves.choice((1, 2))
        replace_after_seconds = moves.choice((math.inf, 1.0, 3.0))
    if random_of(seed, "preferred").random() < 0.2:
        broker["leader.imbalance.check.interval.seconds"] = "1"
    cleaning = random_of(seed, "cleaning")
    is_retained = "log.retention.check.interval.ms" in broker
    if cleaning.random() < 0.25 and not is_retained:
        topic["cleanup.policy"] = "compact"
        broker |= compacting(cleaning)
    has_erasers = cleaning.random() < 0.25 and not (is_retained or may_lose) and "cleanup.policy" not in topic
    has_meddlers = random_of(seed, "meddling").random() < 0.15 and not may_lose
    grows = random_of(seed, "growing").random() < 0.2 and not (moves_replicas or has_erasers or has_meddlers)
    flips = random_of(seed, "flips")
    changes = moves_replicas or has_erasers or has_meddlers or is_retained or may_lose or "cleanup.policy" in topic
    has_flips = replicas > 1 and not changes and flips.random() < 0.3
    shelves = random_of(seed, "shelves")
    cannot_shelve = not may_shelve or may_lose or "cleanup.policy" in topic
    if has_flips:
        has_shelves = not cannot_shelve and random_of(seed, "shelves with flips").random() < 0.25
    elif is_retained:
        both = random_of(seed, "shelves with retention")
        has_shelves = not cannot_shelve and both.random() < 0.3
        if has_shelves:
            _keep_some_on_shelves(topic, both)
    else:
        has_shelves = not cannot_shelve and shelves.random() < 0.25
    if has_shelves:
        spus = max(spus, 2 * replicas + shelves.choice((0, 1)))
        topic |= _shelving(shelves)
        broker["log.retention.check.interval.ms"] = str(shelves.choice((50, 300)))
    commits_alone = policy == "live" and topic["min.insync.replicas"] == "1"
    if has_flips:
        topic["internal.segment.bytes"] = str(flips.choice((200, 1000, 4000)))
        topic["index.interval.bytes"] = str(flips.choice((0, 200)))
        broker["scrub.interval.ms"] = "1000"
    return Scenario(
        seed,
        policy,
        replicas=replicas,
        spus=spus,
        scs=chance.choice((1, 1, 2)),
        partitions=partitions + grows,
        partitions_added=int(grows),
        topic=topic,
        broker=broker,
        batches=batches,
        has_movers=moves_replicas and moves.random() < 0.8,
        replace_after_seconds=replace_after_seconds,
        has_erasers=has_erasers,
        has_meddlers=has_meddlers,
        has_flips=has_flips,
        has_shelves=has_shelves,
        copies_early=replicas > 2 and random_of(seed, "copying").random() < 0.4,
        is_hasty=random_of(seed, "haste").random() < 0.25 and not may_lose,
        has_quorum_readers=random_of(seed, "quorum").random() < 0.4 and not (may_lose or has_flips or has_shelves),
        buffer_bytes=chance.choice((64 * 1024, 2000)),
        link_seconds=chance.choice((0.0005, 0.005, 0.03)),
        sync_seconds=chance.choice((0.002, 0.02, 0.1)),
        store_seconds=_store_seconds(seed, grows=grows),
        patience_seconds=chance.choice((0.5, 1.0, 2.0)),
        faults=_in_order(
            _planned(seed, CATALOGUE, faults, chance.choice((9,) if may_lose else (2, 5, 9)), grows=grows)
            + (_flips(flips) + _flips_in_open_headers(random_of(seed, "open headers")) if has_flips else [])
            + (_flips_in_lone_ends(random_of(seed, "lone ends")) if has_flips and not commits_alone else [])
        ),
    )


def group_scenario_of(
    seed: int, policy: str = "live", *, replicas: int = 3, faults: Sequence[str] = (*GROUP_CATALOGUE, *OUTAGES)
) -> Scenario:
    """Makes a scenario with few records and the groups that consume them.

    Their committed offsets are compacted all the time, in small segments.
    """
    chance = random_of(seed, "groups")
    timeouts = Timeouts(
        session_seconds=chance.choice((1.0, 1.5, 3.0)),
        rebalance_seconds=chance.choice((2.0, 3.0)),
        heartbeat_seconds=0.3,
    )
    session_ms = str(int(timeouts.session_seconds * 1000))
    topic = {"min.insync.replicas": "1"}
    if policy != "live":
        topic["replication.policy"] = policy
    broker = {
        "offsets.topic.num.partitions": str(chance.choice((1, 1, 2))),
        "offsets.topic.replication.factor": str(replicas),
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": str(chance.choice((0, 0, 300))),
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    if chance.random() < 0.25:
        broker["log.flush.interval.messages"] = "1"
    if chance.random() < 0.7:
        broker |= compacting(chance)
    grows = random_of(seed, "growing").random() < 0.3
    if random_of(seed, "preferred").random() < 0.2:
        broker["leader.imbalance.check.interval.seconds"] = "1"
    has_movers = replicas > 1 and random_of(seed, "moves").random() < 0.25
    return Scenario(
        seed,
        policy,
        replicas=replicas,
        spus=max(3, replicas) + has_movers,
        has_movers=has_movers,
        scs=chance.choice((1, 1, 2)),
        partitions=chance.choice((2, 3, 4)),
        partitions_added=int(grows),
        topic=topic,
        broker=broker,
        link_seconds=chance.choice((0.0005, 0.005, 0.03)),
        sync_seconds=chance.choice((0.002, 0.02)),
        store_seconds=_store_seconds(seed, grows=grows),
        patience_seconds=chance.choice((0.5, 1.0, 2.0)),
        batches=12,
        groups=kinds_of(chance),
        timeouts=timeouts,
        faults=_planned(seed, GROUP_CATALOGUE, faults, chance.choice((2, 5, 8)), grows=grows),
    )


def compacting(chance: Random) -> dict[str, str]:
    """Returns configs that compact all the time, in short segments.

    Tombstones are kept for longer than a simulation takes: as in Kafka, a replica that is offline for longer must not
    return with deleted records.
    """
    return {
        "log.cleaner.backoff.ms": str(chance.choice((100, 500))),
        "log.cleaner.max.compaction.lag.ms": str(chance.choice((200, 1000))),
        "log.cleaner.min.cleanable.ratio": str(chance.choice((0.01, 0.3))),
    }


def _shelving(chance: Random) -> dict[str, str]:
    """Returns configs with short segments, of which replicas keep few."""
    kept = chance.choice(
        ({"local.retention.ms": "300"}, {"local.retention.bytes": "400"}, {"local.retention.bytes": "0"})
    )
    return {"remote.storage.enable": "true", "internal.segment.bytes": str(chance.choice((200, 1000))), **kept}


def _keep_some_on_shelves(topic: dict[str, str], chance: Random) -> None:
    """Sets a retention that keeps enough for segments to reach a shelf before they are deleted."""
    topic.pop("retention.ms", None)
    topic.pop("retention.bytes", None)
    name, values = chance.choice((("retention.ms", (1000, 3000)), ("retention.bytes", (1500, 4000))))
    topic[name] = str(chance.choice(values))


def kinds_of(chance: Random) -> tuple[str, ...]:
    """Chooses kinds of groups.

    Without members, the coordinator has nothing to do while it is isolated, but still gets requests.
    """
    if chance.random() < 0.2:
        return ("lone",) * 3
    return (*chance.choices(("classic", "consumer", "mixed"), (3, 3, 2), k=chance.choice((1, 2, 2))), "lone")


def _store_seconds(seed: int, *, grows: bool) -> float:
    """Returns the delay of the store; a slow store shows the states between the writes of a change for longer."""
    return random_of(seed, "store").choice((0.002, 0.05)) if grows else 0.002


def _flips(chance: Random) -> list[Fault]:
    names = ("flip_bits", "flip_bits_while_down")
    return [
        Fault(
            chance.uniform(2.0, FAULTS_END),
            chance.choice(names),
            chance.randrange(1000),
            chance.choice((0.05, 0.5, 2.0)) * chance.uniform(0.5, 1.5),
            chance.getrandbits(32),
        )
        for _ in range(chance.choice((2, 4, 8)))
    ]


def _flips_in_open_headers(chance: Random) -> list[Fault]:
    """Plans flips in headers in half of the scenarios with flips."""
    count = chance.choice((0, 0, 2, 5))
    return [
        Fault(chance.uniform(2.0, FAULTS_END), "flip_open_headers", chance.randrange(1000), 1.0, chance.getrandbits(32))
        for _ in range(count)
    ]


def _flips_in_lone_ends(chance: Random) -> list[Fault]:
    """Plans flips in lone ends in a quarter of the scenarios with flips in which no store acknowledges alone."""
    if chance.random() >= 0.25:
        return []
    return [
        Fault(
            chance.uniform(2.0, FAULTS_END - 1.0),
            "flip_lone_end",
            chance.randrange(1000),
            chance.choice((0.05, 0.5, 2.0)),
            chance.getrandbits(32),
        )
        for _ in range(chance.choice((1, 2, 4)))
    ]


def _planned(seed: int, catalogue: Catalogue, names: Sequence[str], count: int, *, grows: bool) -> list[Fault]:
    kinds = [name for name in names if name in catalogue]
    count = count if kinds else 0
    faults = plan(random_of(seed, "faults"), catalogue, kinds, count=count, begins=FAULTS_BEGIN, ends=FAULTS_END)
    outages = random_of(seed, "outages")
    if (kinds := [name for name in names if name in OUTAGES]) and outages.random() < 0.4:
        count = outages.choice((1, 2, 4))
        faults += plan(outages, OUTAGES, kinds, count=count, begins=FAULTS_BEGIN, ends=FAULTS_END - 1.0)
    growing = random_of(seed, "fault of growing")
    if grows and growing.random() < 0.7:
        seconds = growing.uniform(0.02, 0.8)
        faults.append(Fault(0.0, "kill_sc_as_a_topic_grows", growing.randrange(1000), seconds, growing.getrandbits(32)))
    return _in_order(faults)


def _in_order(faults: list[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: fault.at)
