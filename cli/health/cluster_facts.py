"""The facts about a cluster that its status depends on, from the SC's objects or from Kafka's Metadata."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tailrace.client.sc_client import Document
from tailrace.cluster.stream_state.replica_report import CURRENT_SECONDS, UP_STATES, ShardState
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.controller.objects.objects import (
    Object,
    Partition,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuResolution,
    SpuType,
    Topic,
    TopicResolution,
)
from tailrace.controller.state.cluster_mirror import mirrored_spu
from tailrace.runtime.network import Address

MIN_INSYNC = "min.insync.replicas"


class SpuFacts(Struct, frozen=True):
    """An SPU, or a broker."""

    id: int
    state: str
    """`Online`, `Offline`, or `Init` for an SPU that never connected."""
    addresses: tuple[Address, ...] = ()
    """The addresses that clients are told, one for each listener."""
    reason: str = ""
    group: str = ""
    """The SPU group that starts it; empty for an SPU that a person starts."""

    @property
    def is_online(self) -> bool:
        return self.state == SpuResolution.ONLINE


class PartitionFacts(Struct, frozen=True):
    """A partition of a topic."""

    topic: str
    number: int
    leader: int | None
    """None without a leader."""
    replicas: tuple[int, ...]
    live: tuple[int, ...]
    """The live replicas. They may be on SPUs that are offline, as long as no other replica may lead."""
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.number}"


class TopicFacts(Struct, frozen=True):
    """A topic."""

    name: str
    is_internal: bool
    state: str = TopicResolution.PROVISIONED
    reason: str = ""
    min_insync: int = 1
    """How many live replicas producers with acks=all require."""


class GroupFacts(Struct, frozen=True):
    """An SPU group."""

    name: str
    is_invalid: bool
    reason: str


class TriggerSummary(Struct, frozen=True):
    """A deployed trigger."""

    name: str
    state: str
    reason: str
    replicas: int
    """How many replicas should run."""
    ready: int
    """How many of them report that they handle shards, or wait for some."""
    stopped: tuple[int, ...] = ()
    """The shards that have stopped at an event."""


class ClusterFacts(Struct, frozen=True):
    """A cluster at one moment."""

    spus: tuple[SpuFacts, ...]
    topics: tuple[TopicFacts, ...]
    partitions: tuple[PartitionFacts, ...]
    groups: tuple[GroupFacts, ...] = ()
    triggers: tuple[TriggerSummary, ...] = ()


def facts_of_objects(objects: Sequence[Object], triggers: Sequence[Document] = ()) -> ClusterFacts:
    """Returns the facts that the SC's objects contain; `triggers` are the documents of deployed triggers."""
    return ClusterFacts(
        tuple(_spu(each) for each in objects if isinstance(each, Spu)),
        tuple(_topic(each) for each in objects if isinstance(each, Topic)),
        tuple(_partition(each) for each in objects if isinstance(each, Partition)),
        tuple(
            GroupFacts(each.name, each.status.resolution is SpuGroupResolution.INVALID, each.status.reason)
            for each in objects
            if isinstance(each, SpuGroup)
        ),
        tuple(map(_trigger, triggers)),
    )


def _trigger(document: Document) -> TriggerSummary:
    status = document.get("status") or {}
    wanted = [each for each in status.get("replicas") or () if "revision" in each and "report" in each]
    reports = [each["report"] for each in wanted if each.get("reportAgeMs", 0) <= CURRENT_SECONDS * 1000]
    shards = [shard for report in reports for shard in report.get("shards") or ()]
    return TriggerSummary(
        str(document.get("name")),
        str(status.get("resolution")),
        str(status.get("reason", "")),
        len(status.get("revisions") or ()),
        sum(report.get("state") in UP_STATES for report in reports),
        tuple(sorted(shard["shard"] for shard in shards if shard.get("state") == ShardState.STOPPED)),
    )


def _spu(spu: Spu) -> SpuFacts:
    addresses = tuple(Address(each.host, each.port) for each in mirrored_spu(spu).endpoints)
    group = spu.spec.group or "" if spu.spec.type is SpuType.MANAGED else ""
    return SpuFacts(spu.spec.id, spu.status.resolution.value, addresses, spu.status.reason, group)


def _topic(topic: Topic) -> TopicFacts:
    # Stored configs are checked, so this is a number.
    min_insync = int(topic.spec.configs.get(MIN_INSYNC, "1"))
    state = topic.status.resolution.value or TopicResolution.INIT.value
    return TopicFacts(topic.name, topic.name in INTERNAL_TOPICS, state, topic.status.reason, min_insync)


def _partition(partition: Partition) -> PartitionFacts:
    status = partition.status
    leader = status.leads if status.leads >= 0 else None
    return PartitionFacts(
        partition.topic,
        partition.number,
        leader,
        tuple(partition.spec.replicas),
        tuple(status.live_replicas),
        status.reason,
    )


def facts_of_metadata(metadata: Any) -> ClusterFacts:
    """Returns the facts in a Metadata response about all topics."""
    partitions = tuple(
        PartitionFacts(
            topic.name or "",
            each.partition_index,
            each.leader_id if each.leader_id >= 0 else None,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
        )
        for topic in metadata.topics
        for each in topic.partitions
    )
    addresses = {each.node_id: Address(each.host, each.port) for each in metadata.brokers}
    # A server still names a lost broker for some seconds, but says at once that its replicas are offline.
    lost = {spu for topic in metadata.topics for each in topic.partitions for spu in each.offline_replicas}
    online = addresses.keys() - lost
    others = {spu for each in partitions for spu in each.replicas} - online
    return ClusterFacts(
        (
            *(SpuFacts(spu, SpuResolution.ONLINE.value, (addresses[spu],)) for spu in sorted(online)),
            *(SpuFacts(spu, SpuResolution.OFFLINE.value) for spu in sorted(others)),
        ),
        tuple(TopicFacts(topic.name or "", topic.is_internal) for topic in metadata.topics),
        partitions,
    )
