"""AlterPartitionReassignmentsRequest and AlterPartitionReassignmentsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ReassignablePartition(Struct):
    """Inside AlterPartitionReassignmentsRequest."""

    partition_index: int = 0
    replicas: list[int] | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("replicas", "int32", "0+", array=True, nullable="0+"),
    )


class ReassignableTopic(Struct):
    """Inside AlterPartitionReassignmentsRequest."""

    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", ReassignablePartition, "0+", array=True),
    )


class AlterPartitionReassignmentsRequest(Struct):
    """Versions 0-1, flexible: 0+."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: list[ReassignableTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 45
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("timeout_ms", "int32", "0+"),
        Field("allow_replication_factor_change", "bool", "1+"),
        Field("topics", ReassignableTopic, "0+", array=True),
    )


class ReassignablePartitionResponse(Struct):
    """Inside AlterPartitionReassignmentsResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class ReassignableTopicResponse(Struct):
    """Inside AlterPartitionReassignmentsResponse."""

    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", ReassignablePartitionResponse, "0+", array=True),
    )


class AlterPartitionReassignmentsResponse(Struct):
    """Versions 0-1, flexible: 0+."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)

    API_KEY: ClassVar[int] = 45
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("allow_replication_factor_change", "bool", "1+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("responses", ReassignableTopicResponse, "0+", array=True),
    )
