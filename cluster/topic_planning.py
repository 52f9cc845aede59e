"""Plans new topics and added partitions, or says why they are impossible; changes nothing."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.configs.topic_configs import check_for_replicas, check_topic_configs
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId

from .specs import PartitionSpec, TopicSpec
from .topic_names import INTERNAL_TOPICS, TakenNames, check_topic_name

PARTITIONS_ADDED_MAX = 10_000
"""The number of partitions that one request may add; more would delay all other requests."""
FIRST_EPOCH = Epoch(0)

ReplicaMap = tuple[tuple[SpuId, ...], ...]
"""The replicas of each partition, the preferred leader first."""


class NewTopic(Struct, frozen=True):
    """A request to create a topic."""

    name: str
    partitions: int
    replication_factor: int
    replica_map: Mapping[int, tuple[SpuId, ...]] | None = None
    """The replicas of each partition; None if `partitions` and `replication_factor` apply instead."""
    configs: Mapping[str, str | None] | None = None


class MorePartitions(Struct, frozen=True):
    """A request to add partitions to a topic."""

    topic: str
    count: int
    """The new number of partitions."""
    replica_map: ReplicaMap | None = None
    """The replicas of the added partitions; None if they are to be chosen."""


def plan_topic(new: NewTopic, topic_id: TopicId, taken: TakenNames, spus: Sequence[SpuId]) -> TopicSpec:
    """Plans a topic on `spus` whose name must differ from those in `taken`.

    Raises KafkaError if the topic cannot be created.
    """
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
    """Returns the topic with the added partitions. Raises KafkaError if they cannot be added."""
    existing = len(topic.partitions)
    added = more.count - existing
    if added <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} has {existing} partitions, and {more.count} is not more; partitions cannot be removed",
        )
    if topic.internal:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} must keep its {existing} partitions, because their number decides what is stored in which",
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
                f"{topic.name} has {replication_factor} replicas of each partition, not {len(replica_map[0])}",
            )
    partitions = tuple(
        _partition(topic.id, topic.name, number, replicas) for number, replicas in enumerate(replica_map, existing)
    )
    return replace(topic, partitions=topic.partitions + partitions)


def check_added(partitions: int) -> None:
    """Raises KafkaError if a request may not add so many partitions."""
    if partitions > PARTITIONS_ADDED_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the request adds {partitions} partitions; one request may add at most {PARTITIONS_ADDED_MAX}",
        )


def _partition(topic_id: TopicId, topic: str, number: int, replicas: tuple[SpuId, ...]) -> PartitionSpec:
    return PartitionSpec(topic_id, topic, number, replicas[0], FIRST_EPOCH, replicas, replicas)


def _in_turn(partitions: range, replication_factor: int, spus: Sequence[SpuId]) -> ReplicaMap:
    """Makes a replica map of the wanted size, so that the client gets a response at once.

    The Streaming Controller chooses the real replicas when it stores the topic. `assign` takes longer, because it
    considers racks and all other topics.
    """
    if not partitions:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic has at least 1 partition, not {partitions.stop}")
    check_added(len(partitions))
    if not 1 <= replication_factor <= len(spus):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {replication_factor} is impossible: it must be at least 1 and at most the number "
            f"of SPUs, which is {len(spus)}",
        )
    return tuple(
        tuple(spus[(number + place) % len(spus)] for place in range(replication_factor)) for number in partitions
    )


def _ordered(replica_map: Mapping[int, tuple[SpuId, ...]]) -> ReplicaMap:
    check_added(len(replica_map))
    if sorted(replica_map) != list(range(len(replica_map))):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the given partitions must be 0, 1, 2, … without a gap")
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
