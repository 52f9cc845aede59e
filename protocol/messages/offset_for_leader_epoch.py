"""OffsetForLeaderEpochRequest and OffsetForLeaderEpochResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class OffsetForLeaderPartition(Struct):
    """Inside OffsetForLeaderEpochRequest."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("current_leader_epoch", "int32", "2+"),
        Field("leader_epoch", "int32", "0+"),
    )


class OffsetForLeaderTopic(Struct):
    """Inside OffsetForLeaderEpochRequest."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", OffsetForLeaderPartition, "0+", array=True),
    )


class OffsetForLeaderEpochRequest(Struct):
    """Versions 2-4, flexible: 4+."""

    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[str] = "2-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "3+"),
        Field("topics", OffsetForLeaderTopic, "0+", array=True),
    )


class EpochEndOffset(Struct):
    """Inside OffsetForLeaderEpochResponse."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("partition", "int32", "0+"),
        Field("leader_epoch", "int32", "1+"),
        Field("end_offset", "int64", "0+"),
    )


class OffsetForLeaderTopicResult(Struct):
    """Inside OffsetForLeaderEpochResponse."""

    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", EpochEndOffset, "0+", array=True),
    )


class OffsetForLeaderEpochResponse(Struct):
    """Versions 2-4, flexible: 4+."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[str] = "2-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("topics", OffsetForLeaderTopicResult, "0+", array=True),
    )
