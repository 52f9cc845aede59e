"""Makes the messages with specs and metadata for an SPU, from the state at the moment of sending."""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import SpuSpec, TopicSpec
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.controller.objects.objects import Partition, Spu
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.controller.state.object_codec import SECURITY_PREFIX
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal import apply_metadata, apply_specs
from tailrace.security.records.security_records import KINDS, encode_record

C = TypeVar("C", apply_specs.Config, apply_metadata.Config)

FOR_ALL = ""
"""The name of the config overrides for all SPUs."""


def specs_request(
    spu: Spu, store: LocalStore, partitions: Iterable[Partition], removed: Iterable[PartitionKey], *, is_full: bool
) -> apply_specs.ApplySpecsRequest:
    """Makes a message with specs.

    `partitions` are those that should have a replica or a shelf on the SPU, and `removed` those that the SPU should
    remove. If `is_full`, the SPU also removes partitions that are not named.
    """
    by_topic = groupby(sorted(partitions, key=attrgetter("topic_id", "number")), key=attrgetter("topic_id"))
    return apply_specs.ApplySpecsRequest(
        is_full=is_full,
        size_bytes=-1 if spu.spec.size_bytes is None else spu.spec.size_bytes,
        default_configs=_overrides(store, FOR_ALL),
        own_configs=_overrides(store, str(spu.spec.id)),
        topics=[_held_topic(store, topic_id, list(held)) for topic_id, held in by_topic],
        removed=[apply_specs.RemovedPartition(topic_id, number) for topic_id, number in removed],
    )


def whole_metadata(
    cluster: Cluster, store: LocalStore, *, unreadable: Collection[str] = ()
) -> apply_metadata.ApplyMetadataRequest:
    """Makes a message with the whole mirror.

    `unreadable` has the keys of values in the store that cannot be read. If there are any, there may be partitions
    whose topic is unknown. The SPU keeps what it knows of an unreadable user, access rule, quota or token.
    """
    request = _metadata(cluster, cluster.spus.values(), cluster.topics.values(), cluster.group_configs, is_full=True)
    there = set(store.topics_by_id)
    if unreadable:
        there.update(store.topics_with_partitions)
        there.difference_update(store.deleted_topics)
    request.hidden_topics = sorted(topic_id for topic_id in there if cluster.topic_by_id(topic_id) is None)
    every = [(kind, key) for kind in KINDS for key in cluster.security.of_kind(kind)]
    request.security = _security(cluster, [*every, *_security_names(unreadable)])
    return request


def changed_metadata(
    cluster: Cluster,
    spus: Iterable[SpuId],
    topics: Mapping[TopicId, Collection[int] | None],
    groups: Iterable[str] = (),
    security: Iterable[tuple[str, str]] = (),
) -> apply_metadata.ApplyMetadataRequest:
    """Makes a message with the given parts of the mirror as they are now, or as removed if they do not exist.

    For each topic, only the given partitions are included, or all for None.
    """
    found_spus = {spu: cluster.spus.get(spu) for spu in spus}
    found_topics = {topic: cluster.topic_by_id(topic) for topic in topics}
    request = _metadata(cluster, [spu for spu in found_spus.values() if spu is not None], [], groups, is_full=False)
    request.topics = [_topic(topic, topics[topic_id]) for topic_id, topic in found_topics.items() if topic is not None]
    request.removed_spus = [spu for spu, found in found_spus.items() if found is None]
    request.removed_topics = [topic for topic, found in found_topics.items() if found is None]
    request.security = _security(cluster, security)
    return request


def _held_topic(store: LocalStore, topic_id: TopicId, held: list[Partition]) -> apply_specs.TopicState:
    topic = store.topics_by_id.get(topic_id)
    name = held[0].topic
    return apply_specs.TopicState(
        topic_id,
        name,
        name in INTERNAL_TOPICS,
        [] if topic is None else _configs(topic.spec.configs, apply_specs.Config),
        [_held_partition(partition) for partition in held],
    )


def _held_partition(partition: Partition) -> apply_specs.PartitionState:
    status = partition.status
    return apply_specs.PartitionState(
        partition.number,
        status.leads,  # NO_LEADER during an election, so that the old leader does not go on.
        status.epoch,
        status.incarnation,
        list(partition.spec.replicas),
        [apply_specs.LiveReplica(spu, incarnation) for spu, incarnation in status.live_replicas.items()],
        status.live_version,
        status.was_unclean,
        [apply_specs.CopySet(list(each)) for each in partition.spec.copy_sets],
        partition.spec.shelved_from,
        [
            apply_specs.Shelf(each.base, each.end, list(each.stores), list(each.filling))
            for each in partition.spec.shelves
        ],
    )


def _overrides(store: LocalStore, name: str) -> list[apply_specs.Config]:
    overrides = store.config_overrides.get(name)
    return [] if overrides is None else _configs(overrides.configs, apply_specs.Config)


def _metadata(
    cluster: Cluster, spus: Iterable[SpuSpec], topics: Iterable[TopicSpec], groups: Iterable[str], *, is_full: bool
) -> apply_metadata.ApplyMetadataRequest:
    return apply_metadata.ApplyMetadataRequest(
        is_full=is_full,
        version=cluster.version,
        cluster_id=cluster.cluster_id,
        login_secret=cluster.security.login_secret.decode(),
        controller_id=cluster.controller_id,
        spus=[_spu(spu) for spu in spus],
        topics=[_topic(topic) for topic in topics],
        groups=[_group(cluster, group) for group in groups],
        waiting_topics=[
            apply_metadata.WaitingTopic(each.id, each.name, each.error) for each in cluster.waiting_topics.values()
        ],
    )


def _spu(spu: SpuSpec) -> apply_metadata.SpuState:
    endpoints = [
        apply_metadata.Endpoint(each.listener, each.host, each.port, each.on_all_addresses) for each in spu.endpoints
    ]
    private_host, private_port = ("", 0) if spu.private is None else (spu.private.host, spu.private.port)
    return apply_metadata.SpuState(spu.id, spu.rack, spu.online, endpoints, private_host, private_port)


def _topic(topic: TopicSpec, changed: Collection[int] | None = None) -> apply_metadata.TopicState:
    partitions = [
        apply_metadata.PartitionState(
            each.partition, each.leader, each.epoch, list(each.replicas), list(each.live_replicas)
        )
        for each in (topic.partitions if changed is None else map(topic.partitions.__getitem__, sorted(changed)))
    ]
    configs = _configs(topic.configs, apply_metadata.Config)
    return apply_metadata.TopicState(topic.id, topic.name, topic.internal, configs, partitions, changed is None)


def _group(cluster: Cluster, group: str) -> apply_metadata.GroupState:
    return apply_metadata.GroupState(group, _configs(cluster.group_configs.get(group, {}), apply_metadata.Config))


def _security(cluster: Cluster, names: Iterable[tuple[str, str]]) -> list[apply_metadata.SecurityState]:
    """Returns the records of these kinds and keys. A record that does not exist has no value."""
    found = ((kind, key, cluster.security.of_kind(kind).get(key)) for kind, key in names)
    return [
        apply_metadata.SecurityState(kind, key, None if record is None else encode_record(record))
        for kind, key, record in found
    ]


def _security_names(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the kinds and keys of the records among the keys of a KV store."""
    parts = (key.removeprefix(SECURITY_PREFIX).partition("/") for key in keys if key.startswith(SECURITY_PREFIX))
    return [(kind, key) for kind, _, key in parts if kind in KINDS]


def _configs(configs: Mapping[str, str], kind: type[C]) -> list[C]:
    return [kind(name, value) for name, value in configs.items()]
