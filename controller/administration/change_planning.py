"""Plans admin requests: returns the writes for the KV store, or the error for the client."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from msgspec.structs import replace

from tailrace.cluster import specs
from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_changes import Alteration, ResourceKind, altered, named_twice
from tailrace.cluster.configs.config_definitions import ConfigDefinition, Value, parse
from tailrace.cluster.configs.group_config_table import GROUP_CONFIGS
from tailrace.cluster.configs.group_configs import check_group_configs
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import check_topic_configs, check_unchanged, effective_value
from tailrace.cluster.topic_names import INTERNAL_TOPICS, TakenNames, check_topic_name
from tailrace.cluster.topic_planning import (
    FIRST_EPOCH,
    MorePartitions,
    NewTopic,
    check_added,
    plan_partitions,
    plan_topic,
)
from tailrace.controller.key_value.interface import NO_VERSION, VALUE_BYTES_MAX
from tailrace.controller.objects.objects import (
    ConfigOverrides,
    DeletedTopic,
    GroupConfigs,
    ProducerIdBlock,
    Topic,
    TopicSpec,
)
from tailrace.controller.partitions.election import offline
from tailrace.controller.spus.spu_selection import returning_spus, staying_spus
from tailrace.controller.state.actions import Delete, KvAction, Put
from tailrace.controller.state.local_store import LocalStore, is_finished
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId

from .planned_changes import Planned, Plans

PRODUCER_IDS_PER_BLOCK = 1000
PRODUCER_IDS_PER_MS = 1000
DELETED_TOPICS_MAX = 1000
"""How many deleted topics are remembered. Topics that are forgotten cannot be brought back."""
_FOREIGN_CONFIG_BYTES_MAX = 65536
"""How many bytes of broker configs that Tailrace does not know an SPU, or all SPUs together, may have."""
_REPLICA_BYTES_MAX = len("2147483647,")
_ROW_BYTES_MAX = len('"100000":[],')
_WITHOUT_ROWS_BYTES_MAX = 128 * 1024
"""The space for the rest of a topic. Two of its configs may have long texts."""


def plan_topics(
    topics: Sequence[NewTopic], local: LocalStore, new_topic_id: Callable[[], TopicId]
) -> Plans[specs.TopicSpec]:
    """Plans new topics. A request for too many partitions is refused as a whole first, as in Kafka."""
    try:
        check_added(sum(max(new.partitions, len(new.replica_map or ()), 1) for new in topics))
    except KafkaError as error:
        return [error] * len(topics)
    taken = TakenNames(local.topics)
    plans: Plans[specs.TopicSpec] = []
    for new in topics:
        try:
            planned = plan_topic(new, new_topic_id(), taken, _spus_for(new.replica_map, local))
            replication_factor = len(planned.partitions[0].replicas)
            check_topic_size(planned.name, len(planned.partitions), replication_factor)
        except KafkaError as error:
            plans.append(with_state_of_topic(error, new.name, local))
            continue
        taken.add(planned.name)
        rows = {each.partition: each.replicas for each in planned.partitions} if new.replica_map is not None else {}
        spec = TopicSpec(len(planned.partitions), replication_factor, rows, configs=planned.configs)
        plans.append(Planned(planned, (Put(Topic(planned.name, planned.id, spec)),)))
    return plans


def plan_deletions(topic_ids: Sequence[TopicId], local: LocalStore, now_ms: int) -> Plans[specs.TopicSpec]:
    """Plans deletions of topics. The deletion is stored before the topic is removed, in case the SC crashes between."""
    plans: Plans[specs.TopicSpec] = []
    left = dict(local.topics_by_id)
    for topic_id in topic_ids:
        topic = left.pop(topic_id, None)
        if topic is None:
            plans.append(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {topic_id}"))
            continue
        before = local.deleted_topics.get(topic_id)
        version = NO_VERSION if before is None else before.version
        deleted = DeletedTopic(replace(topic, version=NO_VERSION), now_ms, version)
        plans.append(Planned(spec_of(topic, local), (Put(deleted), Delete(topic))))
    return plans


def plan_end_of_leadership(name_or_id: str, local: LocalStore, now_ms: int, retention_ms: int) -> Planned[None]:
    """Plans the end of all leaderships of a deleted topic, before it is brought back. Raises KafkaError.

    So its leaders are elected anew with other epochs, and a decision from before the deletion that is written late
    loses its compare-and-set.
    """
    topic = _find_restorable(name_or_id, local, now_ms, retention_ms).topic
    there = local.partitions_of(topic.id).values() if topic.id not in local.topics_by_id else ()
    return Planned(None, tuple(Put(replace(each, status=offline(each, "it was deleted"))) for each in there))


def plan_undeletion(name_or_id: str, local: LocalStore, now_ms: int, retention_ms: int) -> Planned[Topic]:
    """Plans the return of a deleted topic, with its id and its replicas. Raises KafkaError.

    The deleted topic is removed only after the topic is stored. A topic is not found any more as soon as SPUs may begin
    to remove its files.
    """
    deleted = _find_restorable(name_or_id, local, now_ms, retention_ms)
    topic = deleted.topic
    if topic.id in local.topics_by_id:
        return Planned(topic, (Delete(deleted),))  # An SC crashed between the two writes of a deletion or a return.
    TakenNames(local.topics).check_free(topic.name)
    return Planned(topic, (Put(replace(topic, version=NO_VERSION)), Delete(deleted)))


def _find_restorable(name_or_id: str, local: LocalStore, now_ms: int, retention_ms: int) -> DeletedTopic:
    kept = [each for each in local.deleted_topics.values() if not _is_expired(each, now_ms, retention_ms)]
    return find_deleted(name_or_id, kept)


def plan_purge(local: LocalStore, now_ms: int, retention_ms: int) -> tuple[KvAction, ...]:
    """Plans the removal of deleted topics that are too old, and of the oldest ones if there are too many."""
    newest_first = sorted(local.deleted_topics.values(), key=lambda each: each.deleted_at_ms, reverse=True)
    return tuple(
        Delete(each)
        for place, each in enumerate(newest_first)
        if place >= DELETED_TOPICS_MAX or _is_expired(each, now_ms, retention_ms)
    )


def _is_expired(deleted: DeletedTopic, now_ms: int, retention_ms: int) -> bool:
    return deleted.deleted_at_ms <= now_ms - retention_ms


def plan_more_partitions(requests: Sequence[MorePartitions], local: LocalStore) -> Plans[specs.TopicSpec]:
    """Plans further partitions for existing topics."""
    plans: Plans[specs.TopicSpec] = []
    added = 0
    for request in requests:
        try:
            topic = find_existing(request.topic, local)
            if not is_finished(topic):
                raise KafkaError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"{topic.name} does not have its first {topic.spec.partitions} partitions yet: "
                    f"{topic.status.reason or 'they are being made'}",
                )
            before = spec_of(topic, local)
            after = plan_partitions(request, before, _spus_for(request.replica_map, local))
            added += len(after.partitions) - len(before.partitions)
            check_added(added)
            factor = len(after.partitions[0].replicas)  # A reassignment may have changed it.
            check_topic_size(topic.name, len(after.partitions), factor)
        except KafkaError as error:
            plans.append(error)
            continue
        rows = dict(topic.spec.replica_map)
        if request.replica_map is not None:
            rows |= {each.partition: each.replicas for each in after.partitions[len(before.partitions) :]}
        spec = replace(topic.spec, partitions=len(after.partitions), replication_factor=factor, replica_map=rows)
        plans.append(Planned(after, (Put(replace(topic, spec=spec)),)))
    return plans


def plan_configs(
    alterations: Sequence[Alteration], local: LocalStore, broker_configs: BrokerConfigs
) -> Plans[Alteration]:
    """Plans changes of configs of topics, groups and SPUs."""
    twice = named_twice([(each.kind, each.name) for each in alterations])
    plans: Plans[Alteration] = []
    for alteration in alterations:
        try:
            if (alteration.kind, alteration.name) in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{alteration.name!r:.300} is named twice")
            if alteration.kind == ResourceKind.TOPIC:
                writes: tuple[KvAction, ...] = (_topic_configs(alteration, local, broker_configs),)
            elif alteration.kind == ResourceKind.GROUP:
                writes = _group_configs(alteration, local, broker_configs)
            else:
                writes = (_config_overrides(alteration, local, broker_configs),)
            plans.append(Planned(alteration, writes))
        except KafkaError as error:
            plans.append(error)
    return plans


def plan_producer_ids(local: LocalStore, now_ms: int) -> Planned[range]:
    """Plans a block of producer ids that are unique even after an older copy of the store was restored.

    A restored store does not know which ids were given out since it was copied. If two producers had the same id, the
    first batch of the second one would look like a duplicate. So ids are at least as large as the current time implies.
    (JavaScript represents them exactly until the year 2255.)
    """
    block = local.producer_ids or ProducerIdBlock(0)
    first = max(block.next_id, now_ms * PRODUCER_IDS_PER_MS)
    after = first + PRODUCER_IDS_PER_BLOCK
    return Planned(range(first, after), (Put(replace(block, next_id=after)),))


def spec_of(topic: Topic, local: LocalStore) -> specs.TopicSpec:
    """Returns a topic as handlers know it, including partitions that are not created yet."""
    partitions = []
    for number, replicas in sorted(topic.status.replica_map.items()):
        made = local.partitions.get((topic.id, number))
        leader, epoch, live = specs.NO_LEADER, FIRST_EPOCH, replicas[:1]
        if made is not None:
            leader, epoch, live = made.status.leader, made.status.epoch, tuple(made.status.live_replicas)
        partitions.append(specs.PartitionSpec(topic.id, topic.name, number, leader, epoch, replicas, live))
    internal = topic.name in INTERNAL_TOPICS
    return specs.TopicSpec(topic.id, topic.name, topic.spec.configs, tuple(partitions), internal=internal)


def _spus_for(chosen: object | None, local: LocalStore) -> list[SpuId]:
    """Returns the SPUs that new replicas may be placed on.

    If a person chose them, every registered SPU may be used. Otherwise the SPUs that stay or are expected back.
    """
    if chosen is not None:
        return sorted(spu.spec.id for spu in local.spus.values())
    online = staying_spus(local)
    return sorted(spu.spec.id for spu in (*online, *returning_spus(local))) if online else []


def with_state_of_topic(error: KafkaError, name: str, local: LocalStore) -> KafkaError:
    """Adds to the error about a taken name why no client can use the topic that has it."""
    topic = local.topics.get(name)
    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or topic is None or is_finished(topic):
        return error
    reason = topic.status.reason or "its replicas are being placed"
    return KafkaError(error.code, f"{error.message}, but no client can use it yet: {reason}")


def find_existing(name: str, local: LocalStore) -> Topic:
    """Finds a topic by its name. Raises KafkaError."""
    topic = local.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name:.300}")
    return topic


def find_deleted(name_or_id: str, deleted_topics: Iterable[DeletedTopic]) -> DeletedTopic:
    """Finds a deleted topic by its name or its id. Raises KafkaError if there is none, or several."""
    try:
        topic_id = UUID(name_or_id)
    except ValueError:
        topic_id = None
    found = [each for each in deleted_topics if each.topic.id == topic_id or each.topic.name == name_or_id]
    if not found:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no deleted topic {name_or_id:.300}")
    if len(found) > 1:
        ids = ", ".join(str(each.topic.id) for each in sorted(found, key=lambda each: each.deleted_at_ms))
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(found)} deleted topics were called {name_or_id:.300}: name one by its id, {ids}",
        )
    return found[0]


def _topic_configs(alteration: Alteration, local: LocalStore, broker_configs: BrokerConfigs) -> Put:
    if not alteration.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "configs of topics are altered one topic at a time: name one")
    check_topic_name(alteration.name)
    topic = find_existing(alteration.name, local)

    def effective(definition: ConfigDefinition) -> Value:
        return effective_value(definition, topic.spec.configs, broker_configs)[0]

    configs = check_topic_configs(altered(topic.spec.configs, alteration, TOPIC_CONFIGS, effective))
    check_unchanged(topic.spec.configs, configs)
    return Put(replace(topic, spec=replace(topic.spec, configs=configs)))


def _group_configs(alteration: Alteration, local: LocalStore, broker_configs: BrokerConfigs) -> tuple[KvAction, ...]:
    """Plans configs of a group. The group need not exist: only its coordinator knows whether it does."""
    if not alteration.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "configs of groups are altered one group at a time: name one")
    before = local.group_configs.get(alteration.name) or GroupConfigs(alteration.name, {})

    def effective(definition: ConfigDefinition) -> Value:
        return effective_value(definition, before.configs, broker_configs)[0]

    after = altered(before.configs, alteration, GROUP_CONFIGS, effective)
    check_group_configs(after, broker_configs)
    if after:
        return (Put(replace(before, configs=after)),)
    return (Delete(before),) if before.configs else ()


def _config_overrides(alteration: Alteration, local: LocalStore, broker_configs: BrokerConfigs) -> Put:
    if alteration.kind != ResourceKind.BROKER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no resource of type {alteration.kind} can be altered here")
    if alteration.name not in ("", *map(str, local.spus)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no SPU {alteration.name!r:.100}")
    for change in alteration.changes:
        if change.name in BROKER_CONFIGS and BROKER_CONFIGS[change.name].read_only:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name} can only be set when the SPU starts")
    before = local.config_overrides.get(alteration.name) or ConfigOverrides(alteration.name, {})

    def effective(definition: ConfigDefinition) -> Value:
        own = _first_of(definition.name, before.configs, local.config_overrides.get(""))
        return broker_configs.value(definition.name) if own is None else parse(definition, own)

    try:
        after = altered(before.configs, alteration, BROKER_CONFIGS, effective, keeps_unknown=True)
    except KafkaError as error:  # Kafka has a special error for configs of topics, but not for those of brokers.
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error
    foreign_bytes = sum(
        len(name.encode()) + len(text.encode()) for name, text in after.items() if name not in BROKER_CONFIGS
    )
    if foreign_bytes > _FOREIGN_CONFIG_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"configs that Tailrace does not know may take {_FOREIGN_CONFIG_BYTES_MAX} bytes, and not {foreign_bytes}",
        )
    return Put(replace(before, configs=after))


def _first_of(name: str, own: Mapping[str, str], default: ConfigOverrides | None) -> str | None:
    return own.get(name) or (None if default is None else default.configs.get(name))


def check_topic_size(topic: str, partitions: int, replication_factor: int) -> None:
    """Raises KafkaError if the topic's replica map would not fit into the topic's object in the KV store.

    The factor 2 leaves room for rows in the spec and in the status, which a deleted topic keeps as well.
    """
    size_bytes = 2 * partitions * (_ROW_BYTES_MAX + replication_factor * _REPLICA_BYTES_MAX)
    if size_bytes > VALUE_BYTES_MAX - _WITHOUT_ROWS_BYTES_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{topic} would have {partitions * replication_factor} replicas; the list of so many cannot be stored",
        )
