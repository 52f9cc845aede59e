"""OffsetDeleteRequest and OffsetDeleteResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class OffsetDeleteRequestPartition(Struct):
    """Inside OffsetDeleteRequest."""

    partition_index: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
    )


class OffsetDeleteRequestTopic(Struct):
    """Inside OffsetDeleteRequest."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", OffsetDeleteRequestPartition, "0+", array=True),
    )


class OffsetDeleteRequest(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", OffsetDeleteRequestTopic, "0+", array=True),
    )


class OffsetDeleteResponsePartition(Struct):
    """Inside OffsetDeleteResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )


class OffsetDeleteResponseTopic(Struct):
    """Inside OffsetDeleteResponse."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", OffsetDeleteResponsePartition, "0+", array=True),
    )


class OffsetDeleteResponse(Struct):
    """Versions 0, flexible: none."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", OffsetDeleteResponseTopic, "0+", array=True),
    )
