"""DescribePositionsRequest and DescribePositionsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class AskedPartition(Struct):
    """Inside DescribePositionsRequest."""

    partition: int = 0
    offsets: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("offsets", "int64", "0+", array=True),
    )


class AskedTopic(Struct):
    """Inside DescribePositionsRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[AskedPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", AskedPartition, "0+", array=True),
    )


class DescribePositionsRequest(Struct):
    """Versions 0, flexible: 0+."""

    topics: list[AskedTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 12001
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", AskedTopic, "0+", array=True),
    )


class DescribedPartition(Struct):
    """Inside DescribePositionsResponse."""

    partition: int = 0
    error_code: int = 0
    end: int = -1
    timestamps_ms: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("end", "int64", "0+"),
        Field("timestamps_ms", "int64", "0+", array=True),
    )


class DescribedTopic(Struct):
    """Inside DescribePositionsResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[DescribedPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", DescribedPartition, "0+", array=True),
    )


class DescribePositionsResponse(Struct):
    """Versions 0, flexible: 0+."""

    topics: list[DescribedTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 12001
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DescribedTopic, "0+", array=True),
    )
