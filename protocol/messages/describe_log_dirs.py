"""DescribeLogDirsRequest and DescribeLogDirsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribableLogDirTopic(Struct):
    """Inside DescribeLogDirsRequest."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class DescribeLogDirsRequest(Struct):
    """Versions 1-5, flexible: 2+."""

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)

    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[str] = "1-5"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DescribableLogDirTopic, "0+", array=True, nullable="0+"),
    )


class DescribeLogDirsPartition(Struct):
    """Inside DescribeLogDirsResponse."""

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("partition_size", "int64", "0+"),
        Field("offset_lag", "int64", "0+"),
        Field("is_future_key", "bool", "0+"),
    )


class DescribeLogDirsTopic(Struct):
    """Inside DescribeLogDirsResponse."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", DescribeLogDirsPartition, "0+", array=True),
    )


class DescribeLogDirsResult(Struct):
    """Inside DescribeLogDirsResponse."""

    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("log_dir", "string", "0+"),
        Field("topics", DescribeLogDirsTopic, "0+", array=True),
        Field("total_bytes", "int64", "4+"),
        Field("usable_bytes", "int64", "4+"),
        Field("is_cordoned", "bool", "5+"),
    )


class DescribeLogDirsResponse(Struct):
    """Versions 1-5, flexible: 2+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[str] = "1-5"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "3+"),
        Field("results", DescribeLogDirsResult, "0+", array=True),
    )
