"""DescribeReplicasRequest and DescribeReplicasResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class DescribedTopic(Struct):
    """Inside DescribeReplicasRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class DescribeReplicasRequest(Struct):
    """Versions 0, flexible: 0+."""

    topics: list[DescribedTopic] = field(default_factory=list)
    epochs_max: int = 0

    API_KEY: ClassVar[int] = 10052
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DescribedTopic, "0+", array=True),
        Field("epochs_max", "int32", "0+", tag=0, tagged="0+"),
    )


class EpochStart(Struct):
    """Inside DescribeReplicasResponse."""

    epoch: int = 0
    start: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("start", "int64", "0+"),
    )


class DescribedReplica(Struct):
    """Inside DescribeReplicasResponse."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    is_leader: bool = False
    log_start: int = -1
    log_end: int = -1
    high_watermark: int = -1
    size_bytes: int = -1
    error_message: str | None = None
    epoch: int = -1
    epochs: list[EpochStart] = field(default_factory=list)
    older_epochs: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("is_leader", "bool", "0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("size_bytes", "int64", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("epoch", "int32", "0+", tag=0, tagged="0+"),
        Field("epochs", EpochStart, "0+", array=True, tag=1, tagged="0+"),
        Field("older_epochs", "int32", "0+", tag=2, tagged="0+"),
    )


class DescribeReplicasResponse(Struct):
    """Versions 0, flexible: 0+."""

    replicas: list[DescribedReplica] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10052
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replicas", DescribedReplica, "0+", array=True),
    )
