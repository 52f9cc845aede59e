"""What a seed simulates for triggers: the shape of the cluster, of the trigger and of its load, and the faults."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace
from simulation.determinism import random_of
from simulation.faults import plan
from simulation.group_faults import GROUP_CATALOGUE
from simulation.scenario import FAULTS_BEGIN, Scenario

FAULTS_END = 14.0
GROUP = "billing"
OUTPUT_TOPIC = "bills"

REPLICA_FAULTS: Final[Mapping[str, float]] = {
    "kill_replica": 5,
    "kill_worker": 2,
    "replace_lost_replica": 2,
    "freeze_replica": 6,
    "freeze_workers": 2,
    "freeze_replica_and_workers": 2,
    "stop_replica": 3,
    "redeploy": 2,
    "scale": 4,
    "cut_replica_from_scs": 3,
    "cut_replica_from_brokers": 3,
    "cut_replica_off": 5,
    "cut_replica_one_way": 3,
    "fade_away": 2,
    "clog_replica": 3,
    "jump_clock_of_replica": 1,
    "reset_connections_of_replica": 1,
}
"""The faults of replicas, with their relative frequency."""
CLUSTER_FAULTS: Final[Mapping[str, float]] = {
    name: GROUP_CATALOGUE[name][0] * 0.3
    for name in (
        "kill_spu",
        "restart_spu",
        "kill_sc",
        "kill_sc_in_a_write",
        "cut_store_off",
        "slow_disk",
        "jump_clock",
        "partition",
        "partition_one_way",
        "cut_link",
        "freeze",
        "clog",
        "reset_connections",
        "kill_coordinator",
        "restart_coordinator",
        "freeze_coordinator",
        "cut_coordinator_off",
    )
}
"""The faults of servers, with their relative frequency."""
TRIGGER_FAULTS: Final[Mapping[str, float]] = {**REPLICA_FAULTS, **CLUSTER_FAULTS}


class TriggerScenario(Scenario, frozen=True, kw_only=True):
    members: int = 3
    """How many replicas of the trigger run."""
    wanted: int = 3
    """The configured number of replicas."""
    is_deployed: bool = False
    """Whether the SC knows the trigger, so that the configured number of replicas can change."""
    is_exactly_once: bool = False
    """Whether output is stored in transactions."""
    workers: int = 2
    """How many workers each replica has."""
    session_seconds: float = 2.0
    commit_seconds: float = 0.3
    slow: float = 0.02
    """The probability that an event takes long."""
    slow_seconds: tuple[float, ...] = (0.3, 1.5)
    """How long such an event may take."""

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics: also of outputs, dead letters, and committed offsets."""
        internal = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
        return 2 * self.partitions + 1 + sum(int(self.broker.get(each, 0)) for each in internal)

    def describe(self) -> str:
        deployed = " in a deployed trigger" * self.is_deployed
        return (
            f"{super().describe()}; {self.members} replicas with {self.workers} workers each, {self.wanted} "
            f"configured{deployed}; sessions take {self.session_seconds:g} s, commits come every "
            f"{self.commit_seconds:g} s" + ", in transactions" * self.is_exactly_once
        )


def trigger_scenario_of(
    seed: int, policy: str = "live", *, replicas: int = 3, faults: Sequence[str] = tuple(TRIGGER_FAULTS)
) -> TriggerScenario:
    """Makes a scenario in which replicas of a trigger handle what producers append all the time."""
    chance = random_of(seed, "triggers")
    topic = {"min.insync.replicas": "1"}
    if policy != "live":
        topic["replication.policy"] = policy
    broker = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "log.cleaner.backoff.ms": "1000000",  # all commits stay in the log, which shows their order
    }
    members = chance.choice((2, 3, 3))
    batches = chance.choice((20, 60))
    weights = {name: (TRIGGER_FAULTS[name], None) for name in faults}
    return TriggerScenario(
        seed,
        policy,
        replicas=replicas,
        spus=max(3, replicas),
        scs=chance.choice((1, 1, 2)),
        partitions=chance.choice((2, 3, 4)),
        topic=topic,
        broker=broker,
        link_seconds=chance.choice((0.0005, 0.005, 0.03)),
        sync_seconds=chance.choice((0.002, 0.02)),
        patience_seconds=chance.choice((0.5, 1.0, 2.0)),
        batches=batches,
        groups=("trigger",),
        faults_end=FAULTS_END,
        members=members,
        wanted=members - chance.choice((0, 1, 1)),  # one that has nothing to take takes over at once
        is_deployed=random_of(seed, "deployed trigger").random() < 0.5,
        workers=chance.choice((1, 2)),
        session_seconds=chance.choice((1.5, 2.0, 3.0)),
        commit_seconds=chance.choice((0.1, 0.3, 1.0)),
        slow=chance.choice((0.0, 0.02, 0.1 if batches == 20 else 0.02)),
        faults=plan(
            random_of(seed, "faults of triggers"),
            weights,  # type: ignore[arg-type]
            faults,
            count=chance.choice((3, 6, 12)),
            begins=FAULTS_BEGIN,
            ends=FAULTS_END,
        ),
    )


def with_transactions(scenario: TriggerScenario) -> TriggerScenario:
    """Returns the scenario of a trigger that stores its output exactly once."""
    broker = {
        **scenario.broker,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(scenario.replicas),
        "transaction.state.log.min.isr": "1",
    }
    return replace(scenario, broker=broker, is_exactly_once=True)
