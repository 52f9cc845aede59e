"""OffsetCommitRequest and OffsetCommitResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class OffsetCommitRequestPartition(Struct):
    """Inside OffsetCommitRequest."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    commit_timestamp: int = -1
    committed_metadata: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("committed_offset", "int64", "0+"),
        Field("committed_leader_epoch", "int32", "6+"),
        Field("commit_timestamp", "int64", "1"),
        Field("committed_metadata", "string", "0+", nullable="0+"),
    )


class OffsetCommitRequestTopic(Struct):
    """Inside OffsetCommitRequest."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partitions", OffsetCommitRequestPartition, "0+", array=True),
    )


class OffsetCommitRequest(Struct):
    """Versions 2-10, flexible: 8+."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[str] = "2-10"
    FLEXIBLE: ClassVar[str] = "8+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("generation_id_or_member_epoch", "int32", "1+"),
        Field("member_id", "string", "1+"),
        Field("group_instance_id", "string", "7+", nullable="7+"),
        Field("retention_time_ms", "int64", "2-4"),
        Field("topics", OffsetCommitRequestTopic, "0+", array=True),
    )


class OffsetCommitResponsePartition(Struct):
    """Inside OffsetCommitResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )


class OffsetCommitResponseTopic(Struct):
    """Inside OffsetCommitResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partitions", OffsetCommitResponsePartition, "0+", array=True),
    )


class OffsetCommitResponse(Struct):
    """Versions 2-10, flexible: 8+."""

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[str] = "2-10"
    FLEXIBLE: ClassVar[str] = "8+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "3+"),
        Field("topics", OffsetCommitResponseTopic, "0+", array=True),
    )
