"""FetchRequest and FetchResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID, Records


class ReplicaState(Struct):
    """Inside FetchRequest."""

    replica_id: int = -1
    replica_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "15+"),
        Field("replica_epoch", "int64", "15+"),
    )


class FetchPartition(Struct):
    """Inside FetchRequest."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID = NO_UUID
    high_watermark: int = 9223372036854775807

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("current_leader_epoch", "int32", "9+"),
        Field("fetch_offset", "int64", "0+"),
        Field("last_fetched_epoch", "int32", "12+"),
        Field("log_start_offset", "int64", "5+"),
        Field("partition_max_bytes", "int32", "0+"),
        Field("replica_directory_id", "uuid", "17+", tag=0, tagged="17+"),
        Field("high_watermark", "int64", "18+", tag=1, tagged="18+"),
    )


class FetchTopic(Struct):
    """Inside FetchRequest."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partitions", FetchPartition, "0+", array=True),
    )


class ForgottenTopic(Struct):
    """Inside FetchRequest."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "7-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partitions", "int32", "7+", array=True),
    )


class FetchRequest(Struct):
    """Versions 4-18, flexible: 12+."""

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""

    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[str] = "4-18"
    FLEXIBLE: ClassVar[str] = "12+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("cluster_id", "string", "12+", nullable="12+", tag=0, tagged="12+"),
        Field("replica_id", "int32", "0-14"),
        Field("replica_state", ReplicaState, "15+", tag=1, tagged="15+"),
        Field("max_wait_ms", "int32", "0+"),
        Field("min_bytes", "int32", "0+"),
        Field("max_bytes", "int32", "3+"),
        Field("isolation_level", "int8", "4+"),
        Field("session_id", "int32", "7+"),
        Field("session_epoch", "int32", "7+"),
        Field("topics", FetchTopic, "0+", array=True),
        Field("forgotten_topics_data", ForgottenTopic, "7+", array=True),
        Field("rack_id", "string", "11+"),
    )


class EpochEndOffset(Struct):
    """Inside FetchResponse."""

    epoch: int = -1
    end_offset: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "12+"),
        Field("end_offset", "int64", "12+"),
    )


class LeaderIdAndEpoch(Struct):
    """Inside FetchResponse."""

    leader_id: int = -1
    leader_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("leader_id", "int32", "12+"),
        Field("leader_epoch", "int32", "12+"),
    )


class SnapshotId(Struct):
    """Inside FetchResponse."""

    end_offset: int = -1
    epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("end_offset", "int64", "0+"),
        Field("epoch", "int32", "0+"),
    )


class AbortedTransaction(Struct):
    """Inside FetchResponse."""

    producer_id: int = 0
    first_offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "4+"),
        Field("first_offset", "int64", "4+"),
    )


class PartitionData(Struct):
    """Inside FetchResponse."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1
    records: Records | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("last_stable_offset", "int64", "4+"),
        Field("log_start_offset", "int64", "5+"),
        Field("diverging_epoch", EpochEndOffset, "12+", tag=0, tagged="12+"),
        Field("current_leader", LeaderIdAndEpoch, "12+", tag=1, tagged="12+"),
        Field("snapshot_id", SnapshotId, "12+", tag=2, tagged="12+"),
        Field("aborted_transactions", AbortedTransaction, "4+", array=True, nullable="4+"),
        Field("preferred_read_replica", "int32", "11+"),
        Field("records", "records", "0+", nullable="0+"),
    )


class FetchableTopicResponse(Struct):
    """Inside FetchResponse."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partitions", PartitionData, "0+", array=True),
    )


class NodeEndpoint(Struct):
    """Inside FetchResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "16+"),
        Field("host", "string", "16+"),
        Field("port", "int32", "16+"),
        Field("rack", "string", "16+", nullable="16+"),
    )


class FetchResponse(Struct):
    """Versions 4-18, flexible: 12+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[str] = "4-18"
    FLEXIBLE: ClassVar[str] = "12+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "7+"),
        Field("session_id", "int32", "7+"),
        Field("responses", FetchableTopicResponse, "0+", array=True),
        Field("node_endpoints", NodeEndpoint, "16+", array=True, tag=0, tagged="16+"),
    )
