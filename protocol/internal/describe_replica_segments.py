"""DescribeReplicaSegmentsRequest and DescribeReplicaSegmentsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class OffsetRange(Struct):
    """Inside DescribeReplicaSegmentsRequest."""

    base: int = 0
    end: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
    )


class DescribeReplicaSegmentsRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    before: int = -1
    segments_max: int = 0
    ranges: list[OffsetRange] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10053
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("before", "int64", "0+"),
        Field("segments_max", "int32", "0+"),
        Field("ranges", OffsetRange, "0+", array=True),
    )


class ReplicaSegment(Struct):
    """Inside DescribeReplicaSegmentsResponse."""

    base: int = 0
    end: int = 0
    first_epoch: int = -1
    last_epoch: int = -1
    size_bytes: int = 0
    checksum: int = 0
    state: str = ""
    sealed_by: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("first_epoch", "int32", "0+"),
        Field("last_epoch", "int32", "0+"),
        Field("size_bytes", "int64", "0+"),
        Field("checksum", "int64", "0+"),
        Field("state", "string", "0+"),
        Field("sealed_by", "string", "0+"),
    )


class RangeContent(Struct):
    """Inside DescribeReplicaSegmentsResponse."""

    base: int = 0
    end: int = 0
    checksum: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("checksum", "int64", "0+"),
    )


class DescribeReplicaSegmentsResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_message: str | None = None
    log_start: int = -1
    log_end: int = -1
    high_watermark: int = -1
    compacted_end: int = 0
    older_count: int = 0
    segments: list[ReplicaSegment] = field(default_factory=list)
    contents: list[RangeContent] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10053
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_message", "string", "0+", nullable="0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("compacted_end", "int64", "0+"),
        Field("older_count", "int32", "0+"),
        Field("segments", ReplicaSegment, "0+", array=True),
        Field("contents", RangeContent, "0+", array=True),
    )
