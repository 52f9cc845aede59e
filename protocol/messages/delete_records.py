"""DeleteRecordsRequest and DeleteRecordsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DeleteRecordsPartition(Struct):
    """Inside DeleteRecordsRequest."""

    partition_index: int = 0
    offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("offset", "int64", "0+"),
    )


class DeleteRecordsTopic(Struct):
    """Inside DeleteRecordsRequest."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", DeleteRecordsPartition, "0+", array=True),
    )


class DeleteRecordsRequest(Struct):
    """Versions 0-2, flexible: 2+."""

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DeleteRecordsTopic, "0+", array=True),
        Field("timeout_ms", "int32", "0+"),
    )


class DeleteRecordsPartitionResult(Struct):
    """Inside DeleteRecordsResponse."""

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("low_watermark", "int64", "0+"),
        Field("error_code", "int16", "0+"),
    )


class DeleteRecordsTopicResult(Struct):
    """Inside DeleteRecordsResponse."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", DeleteRecordsPartitionResult, "0+", array=True),
    )


class DeleteRecordsResponse(Struct):
    """Versions 0-2, flexible: 2+."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", DeleteRecordsTopicResult, "0+", array=True),
    )
