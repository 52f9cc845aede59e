"""DescribeSegmentsRequest and DescribeSegmentsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class DescribeSegmentsRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic: str = ""
    partition: int = -1
    before: int = -1

    API_KEY: ClassVar[int] = 11006
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partition", "int32", "0+"),
        Field("before", "int64", "0+"),
    )


class SegmentCopy(Struct):
    """Inside DescribeSegmentsResponse."""

    spu_id: int = 0
    comparison: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("comparison", "string", "0+"),
    )


class DescribedSegment(Struct):
    """Inside DescribeSegmentsResponse."""

    base: int = 0
    end: int = 0
    first_epoch: int = -1
    last_epoch: int = -1
    size_bytes: int = 0
    checksum: int = 0
    state: str = ""
    sealed_by: str = ""
    copies: list[SegmentCopy] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("first_epoch", "int32", "0+"),
        Field("last_epoch", "int32", "0+"),
        Field("size_bytes", "int64", "0+"),
        Field("checksum", "int64", "0+"),
        Field("state", "string", "0+"),
        Field("sealed_by", "string", "0+"),
        Field("copies", SegmentCopy, "0+", array=True),
    )


class SegmentHolder(Struct):
    """Inside DescribeSegmentsResponse."""

    spu_id: int = 0
    log_end: int = -1
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("log_end", "int64", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class DescribedShelf(Struct):
    """Inside DescribeSegmentsResponse."""

    base: int = 0
    end: int = 0
    stores: list[int] = field(default_factory=list)
    filling: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("stores", "int32", "0+", array=True),
        Field("filling", "int32", "0+", array=True),
    )


class SegmentedPartition(Struct):
    """Inside DescribeSegmentsResponse."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partition: int = 0
    leader: int = -1
    told_by: int = -1
    log_start: int = -1
    log_end: int = -1
    high_watermark: int = -1
    older_count: int = 0
    segments: list[DescribedSegment] = field(default_factory=list)
    holders: list[SegmentHolder] = field(default_factory=list)
    shelves: list[DescribedShelf] = field(default_factory=list)
    older_shelves: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("leader", "int32", "0+"),
        Field("told_by", "int32", "0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("older_count", "int32", "0+"),
        Field("segments", DescribedSegment, "0+", array=True),
        Field("holders", SegmentHolder, "0+", array=True),
        Field("shelves", DescribedShelf, "0+", array=True, tag=0, tagged="0+"),
        Field("older_shelves", "int32", "0+", tag=1, tagged="0+"),
    )


class DescribeSegmentsResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    partitions: list[SegmentedPartition] = field(default_factory=list)

    API_KEY: ClassVar[int] = 11006
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("partitions", SegmentedPartition, "0+", array=True),
    )
