"""What a topic that somebody wants would look like, or why it cannot be: no change is made here."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.configs.topic_configs import check_for_replicas, check_topic_configs
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId

from .specs import PartitionSpec, TopicSpec
from .topic_names import INTERNAL_TOPICS, TakenNames, check_topic_name

PARTITIONS_ADDED_MAX = 10_000
"""By one request: what adds more would hold up everyone else."""
FIRST_EPOCH = Epoch(0)

ReplicaMap = tuple[tuple[SpuId, ...], ...]
"""The replicas of each partition, the preferred leader first."""


class NewTopic(Struct, frozen=True):
    name: str
    partitions: int
    replication_factor: int
    replica_map: Mapping[int, tuple[SpuId, ...]] | None = None
    """Chosen by hand, instead of the two numbers."""
    configs: Mapping[str, str | None] | None = None


class MorePartitions(Struct, frozen=True):
    topic: str
    count: int
    """How many there are to be in all."""
    replica_map: ReplicaMap | None = None
    """Of those that are added."""


def plan_topic(new: NewTopic, topic_id: TopicId, taken: TakenNames, spus: Sequence[SpuId]) -> TopicSpec:
    """Raises KafkaError when the topic cannot be created beside those that there are, on these `spus`."""
    check_topic_name(new.name)
    taken.check_free(new.name)
    configs = check_topic_configs(new.configs or {})
    if new.replica_map is None:
        replica_map = _in_turn(range(new.partitions), new.replication_factor, spus)
    else:
        replica_map = _ordered(new.replica_map)
        _check_replica_map(replica_map, spus)
    if replica_map:
        check_for_replicas(configs, len(replica_map[0]))
    partitions = tuple(_partition(topic_id, new.name, number, replicas) for number, replicas in enumerate(replica_map))
    return TopicSpec(topic_id, new.name, configs, partitions, internal=new.name in INTERNAL_TOPICS)


def plan_partitions(more: MorePartitions, topic: TopicSpec, spus: Sequence[SpuId]) -> TopicSpec:
    """The topic with the partitions added. Raises KafkaError when they cannot be."""
    existing = len(topic.partitions)
    added = more.count - existing
    if added <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} has {existing} partitions; {more.count} would not be more, and partitions cannot be removed",
        )
    if topic.internal:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} keeps its {existing} partitions: what is stored in them would be looked for in others",
        )
    check_added(added)
    replication_factor = len(topic.partitions[0].replicas)
    if more.replica_map is None:
        replica_map = _in_turn(range(existing, more.count), replication_factor, spus)
    else:
        replica_map = more.replica_map
        if len(replica_map) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{topic.name} would get {added} more partitions, but replicas are given for {len(replica_map)}",
            )
        _check_replica_map(replica_map, spus)
        if len(replica_map[0]) != replication_factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{topic.name} has {replication_factor} replicas of each partition, and not {len(replica_map[0])}",
            )
    partitions = tuple(
        _partition(topic.id, topic.name, number, replicas) for number, replicas in enumerate(replica_map, existing)
    )
    return replace(topic, partitions=topic.partitions + partitions)


def check_added(partitions: int) -> None:
    if partitions > PARTITIONS_ADDED_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the request adds {partitions} partitions; one request may add {PARTITIONS_ADDED_MAX}",
        )


def _partition(topic_id: TopicId, topic: str, number: int, replicas: tuple[SpuId, ...]) -> PartitionSpec:
    return PartitionSpec(topic_id, topic, number, replicas[0], FIRST_EPOCH, replicas, replicas)


def _in_turn(partitions: range, replication_factor: int, spus: Sequence[SpuId]) -> ReplicaMap:
    """As many as are asked for, so that whoever asked is answered. Where they will lie the Streaming Controller decides
    when the topic is stored: `assign` knows of racks and of all other topics, and takes its time."""
    if not partitions:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic has at least 1 partition, not {partitions.stop}")
    check_added(len(partitions))
    if not 1 <= replication_factor <= len(spus):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {replication_factor} cannot be had: it is at least 1 and at most the number of "
            f"SPUs, which is {len(spus)}",
        )
    return tuple(
        tuple(spus[(number + place) % len(spus)] for place in range(replication_factor)) for number in partitions
    )


def _ordered(replica_map: Mapping[int, tuple[SpuId, ...]]) -> ReplicaMap:
    check_added(len(replica_map))
    if sorted(replica_map) != list(range(len(replica_map))):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions given are not 0, 1, 2, … without a gap")
    return tuple(replica_map[number] for number in range(len(replica_map)))


def _check_replica_map(replica_map: ReplicaMap, spus: Sequence[SpuId]) -> None:
    known = frozenset(spus)
    for number, replicas in enumerate(replica_map):
        if not replicas:
            fault = "has no replica"
        elif len(set(replicas)) != len(replicas):
            fault = "names an SPU twice"
        elif len(replicas) != len(replica_map[0]):
            fault = f"has {len(replicas)} replicas, but the first one has {len(replica_map[0])}"
        elif not known.issuperset(replicas):
            fault = f"names the SPU {next(spu for spu in replicas if spu not in known)}, which does not exist"
        else:
            continue
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {number} of those given {fault}")
