"""OffsetFetchRequest and OffsetFetchResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class OffsetFetchRequestTopic(Struct):
    """Inside OffsetFetchRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0-7"),
        Field("partition_indexes", "int32", "0-7", array=True),
    )


class OffsetFetchRequestTopics(Struct):
    """Inside OffsetFetchRequest."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "8-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partition_indexes", "int32", "8+", array=True),
    )


class OffsetFetchRequestGroup(Struct):
    """Inside OffsetFetchRequest."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "8+"),
        Field("member_id", "string", "9+", nullable="9+"),
        Field("member_epoch", "int32", "9+"),
        Field("topics", OffsetFetchRequestTopics, "8+", array=True, nullable="8+"),
    )


class OffsetFetchRequest(Struct):
    """Versions 1-10, flexible: 6+."""

    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    require_stable: bool = False

    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[str] = "1-10"
    FLEXIBLE: ClassVar[str] = "6+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0-7"),
        Field("topics", OffsetFetchRequestTopic, "0-7", array=True, nullable="2-7"),
        Field("groups", OffsetFetchRequestGroup, "8+", array=True),
        Field("require_stable", "bool", "7+"),
    )


class OffsetFetchResponsePartition(Struct):
    """Inside OffsetFetchResponse."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0-7"),
        Field("committed_offset", "int64", "0-7"),
        Field("committed_leader_epoch", "int32", "5-7"),
        Field("metadata", "string", "0-7", nullable="0-7"),
        Field("error_code", "int16", "0-7"),
    )


class OffsetFetchResponseTopic(Struct):
    """Inside OffsetFetchResponse."""

    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0-7"),
        Field("partitions", OffsetFetchResponsePartition, "0-7", array=True),
    )


class OffsetFetchResponsePartitions(Struct):
    """Inside OffsetFetchResponse."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "8+"),
        Field("committed_offset", "int64", "8+"),
        Field("committed_leader_epoch", "int32", "8+"),
        Field("metadata", "string", "8+", nullable="8+"),
        Field("error_code", "int16", "8+"),
    )


class OffsetFetchResponseTopics(Struct):
    """Inside OffsetFetchResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "8-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partitions", OffsetFetchResponsePartitions, "8+", array=True),
    )


class OffsetFetchResponseGroup(Struct):
    """Inside OffsetFetchResponse."""

    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "8+"),
        Field("topics", OffsetFetchResponseTopics, "8+", array=True),
        Field("error_code", "int16", "8+"),
    )


class OffsetFetchResponse(Struct):
    """Versions 1-10, flexible: 6+."""

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)

    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[str] = "1-10"
    FLEXIBLE: ClassVar[str] = "6+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "3+"),
        Field("topics", OffsetFetchResponseTopic, "0-7", array=True),
        Field("error_code", "int16", "2-7"),
        Field("groups", OffsetFetchResponseGroup, "8+", array=True),
    )
