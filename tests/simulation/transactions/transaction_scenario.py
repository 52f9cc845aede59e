"""What a seed simulates for transactions: the shape of the cluster, the transactional ids, and the faults."""

from collections.abc import Sequence
from zlib import crc32

from simulation.determinism import random_of
from simulation.faults import plan
from simulation.outages import OUTAGES
from simulation.scenario import FAULTS_BEGIN, Scenario, compacting

from .transaction_faults import TRANSACTION_CATALOGUE

FAULTS_END = 6.5
PAYMENTS = "payments"
"""The topic of transactional and of plain producers."""
RECEIPTS = "receipts"
"""The topic of what is made of payments."""
GROUP = "cashiers"
SESSION_SECONDS = 1.5
KEYS = 30
"""The number of different keys in compacted logs, so many that an aborted record is often the last one of its key."""
AGES = ("compaction", "retention", "erasers")
"""How records may be removed."""
BY_CHANCE = "by chance"


def key_of(value: bytes) -> bytes:
    """Returns the key of a record in a compacted topic. Producers share the keys."""
    return b"key-%d" % (crc32(value) % KEYS)


class TransactionScenario(Scenario, frozen=True, kw_only=True):
    ids: int = 3
    """How many transactional ids have producers that only write."""
    receipts: int = 1
    """How many partitions the topic of outputs has."""
    has_processors: bool = True
    """Whether payments are consumed, and receipts produced."""
    has_members: bool = False
    """Whether the processors are members of a group, whose generations fence them, and not their transactional ids."""
    has_new_members: bool = False
    """Whether these members speak the protocol of KIP-848, in which member epochs fence them."""
    second_protocol: float = 0.5
    """The share of transactional ids whose producers speak TV2."""
    timeout_seconds: tuple[float, ...] = (1.0, 3.0, 30.0)
    """The possible timeouts of transactions."""
    strays: float = 0.1
    """How often a request to end a transaction arrives late a second time."""
    epoch_max: int = 2**15 - 1
    """The last epoch of a producer id. With a small one, producers go on with other ids again and again."""
    transactions: int = 12
    """How many transactions each transactional id has until its load ends."""

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics, the internal ones included."""
        internal = self.coordinators + int(self.broker["offsets.topic.num.partitions"]) * self.has_processors
        return self.partitions + self.payments + self.receipts + internal

    @property
    def coordinators(self) -> int:
        """The number of partitions of the states of transactions."""
        return int(self.broker["transaction.state.log.num.partitions"])

    @property
    def is_synced_before_acknowledging(self) -> bool:
        """Whether all topics are synced, the internal ones included, to which the configs of topics do not apply."""
        return self.broker.get("log.flush.interval.messages") == "1"

    @property
    def deletes_records(self) -> bool:
        """Whether the beginnings of logs are deleted."""
        return self.is_retained or self.has_erasers

    @property
    def payments(self) -> int:
        return 2

    @property
    def clocks_jump(self) -> bool:
        return any(fault.kind == "jump_clock" for fault in self.faults)

    def describe(self) -> str:
        processors = "payments are processed; " * self.has_processors
        if self.has_processors and self.has_members:
            processors += f"by {'new' if self.has_new_members else 'classic'} members of a group; "
        epochs = f"no epoch exceeds {self.epoch_max}; " * (self.epoch_max < 100)
        return (
            f"{super().describe()}; {epochs}{self.ids} transactional ids, {self.second_protocol:g} of them TV2; "
            f"{processors}{'records are deleted; ' * self.has_erasers}{self.receipts} partitions of receipts"
        )


def transaction_scenario_of(
    seed: int,
    policy: str = "live",
    *,
    replicas: int = 3,
    faults: Sequence[str] = (*TRANSACTION_CATALOGUE, *OUTAGES),
    age: str | None = BY_CHANCE,
) -> TransactionScenario:
    """Makes a scenario with short transactions. Some of them are long, late or given up.

    `age` is one of `AGES`, None if no record is removed, or the seed's choice.
    """
    chance = random_of(seed, "transactions")
    topic = {"min.insync.replicas": str(chance.choice((1, 1, 2)) if replicas > 1 else 1)}
    if policy != "live":
        topic["replication.policy"] = policy
    if chance.random() < 0.4:
        topic["internal.segment.bytes"] = str(chance.choice((400, 1500)))
        topic["index.interval.bytes"] = str(chance.choice((0, 200, 4096)))
    if chance.random() < 0.2:
        topic["flush.messages"] = "1"
    broker = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "transaction.state.log.num.partitions": str(chance.choice((1, 2))),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": "1",
    }
    if chance.random() < 0.2:
        broker["log.flush.interval.messages"] = "1"
    if chance.random() < 0.5:
        broker |= {
            "log.cleaner.backoff.ms": str(chance.choice((100, 500))),
            "log.cleaner.max.compaction.lag.ms": "300",
            "log.cleaner.min.cleanable.ratio": "0.01",
        }
    has_movers = replicas > 1 and chance.random() < 0.2
    kinds = [name for name in faults if name in TRANSACTION_CATALOGUE]
    count = chance.choice((2, 4, 7)) if kinds else 0
    planned = plan(
        random_of(seed, "faults"), TRANSACTION_CATALOGUE, kinds, count=count, begins=FAULTS_BEGIN, ends=FAULTS_END
    )
    outages = [name for name in faults if name in OUTAGES]
    if outages and chance.random() < 0.3:
        planned += plan(
            random_of(seed, "outages"), OUTAGES, outages, count=1, begins=FAULTS_BEGIN, ends=FAULTS_END - 1.0
        )
    epochs = random_of(seed, "epochs")
    aging = random_of(seed, "aging of transactions")
    kind = (aging.choice(AGES) if aging.random() < 0.4 else None) if age is BY_CHANCE else age
    if kind is not None:
        topic |= {"internal.segment.bytes": str(aging.choice((200, 400, 1000)))}
        if kind == "compaction":
            topic |= {"cleanup.policy": "compact", "delete.retention.ms": str(aging.choice((4000, 86_400_000)))}
            broker |= compacting(aging)
        elif kind == "retention":
            broker["log.retention.check.interval.ms"] = str(aging.choice((50, 300)))
            topic["retention.bytes"] = str(aging.choice((600, 2000, 5000)))
    session_ms = str(int(SESSION_SECONDS * 1000))
    broker |= {
        "group.consumer.min.session.timeout.ms": session_ms,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    return TransactionScenario(
        seed,
        policy,
        replicas=replicas,
        spus=max(3, replicas) + has_movers,
        scs=chance.choice((1, 1, 2)),
        has_movers=has_movers,
        partitions=1,
        topic=topic,
        broker=broker,
        link_seconds=chance.choice((0.0005, 0.005, 0.03)),
        sync_seconds=chance.choice((0.002, 0.02)),
        patience_seconds=chance.choice((0.5, 1.0, 2.0)),
        batches=3,
        groups=("transactions",),
        faults=sorted(planned, key=lambda fault: fault.at),
        faults_end=FAULTS_END,
        ids=chance.choice((2, 3)),
        receipts=chance.choice((1, 2)),
        has_processors=chance.random() < 0.7,
        second_protocol=chance.choice((0.0, 0.5, 0.5, 1.0)),
        timeout_seconds=chance.choice(((1.0, 3.0, 30.0), (30.0,), (0.4, 1.0))),
        strays=chance.choice((0.0, 0.1, 0.3)),
        has_members=chance.random() < 0.5,
        has_new_members=random_of(seed, "new members").random() < 0.5,
        has_erasers=kind == "erasers",
        epoch_max=epochs.choice((3, 8)) if epochs.random() < 0.25 else 2**15 - 1,
    )
