"""ListOffsetsRequest and ListOffsetsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ListOffsetsPartition(Struct):
    """Inside ListOffsetsRequest."""

    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0
    max_num_offsets: int = 1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("current_leader_epoch", "int32", "4+"),
        Field("timestamp", "int64", "0+"),
        Field("max_num_offsets", "int32", "0"),
    )


class ListOffsetsTopic(Struct):
    """Inside ListOffsetsRequest."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", ListOffsetsPartition, "0+", array=True),
    )


class ListOffsetsRequest(Struct):
    """Versions 1-11, flexible: 6+."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[str] = "1-11"
    FLEXIBLE: ClassVar[str] = "6+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "0+"),
        Field("isolation_level", "int8", "2+"),
        Field("topics", ListOffsetsTopic, "0+", array=True),
        Field("timeout_ms", "int32", "10+"),
    )


class ListOffsetsPartitionResponse(Struct):
    """Inside ListOffsetsResponse."""

    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: list[int] = field(default_factory=list)
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("old_style_offsets", "int64", "0", array=True),
        Field("timestamp", "int64", "1+"),
        Field("offset", "int64", "1+"),
        Field("leader_epoch", "int32", "4+"),
    )


class ListOffsetsTopicResponse(Struct):
    """Inside ListOffsetsResponse."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", ListOffsetsPartitionResponse, "0+", array=True),
    )


class ListOffsetsResponse(Struct):
    """Versions 1-11, flexible: 6+."""

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)

    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[str] = "1-11"
    FLEXIBLE: ClassVar[str] = "6+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("topics", ListOffsetsTopicResponse, "0+", array=True),
    )
