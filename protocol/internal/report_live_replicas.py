"""ReportLiveReplicasRequest and ReportLiveReplicasResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class Member(Struct):
    """Inside ReportLiveReplicasRequest."""

    spu_id: int = 0
    incarnation: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("incarnation", "string", "0+"),
    )


class Lag(Struct):
    """Inside ReportLiveReplicasRequest."""

    spu_id: int = 0
    records: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("records", "int64", "0+"),
    )


class ReportedPartition(Struct):
    """Inside ReportLiveReplicasRequest."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    epoch: int = 0
    version: int = 0
    members: list[Member] = field(default_factory=list)
    has_failed: bool = False
    has_taken_over: bool = False
    high_watermark: int = -1
    log_end: int = -1
    lags: list[Lag] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("version", "int32", "0+"),
        Field("members", Member, "0+", array=True),
        Field("has_failed", "bool", "0+"),
        Field("has_taken_over", "bool", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("lags", Lag, "0+", array=True),
    )


class ReportLiveReplicasRequest(Struct):
    """Versions 0, flexible: 0+."""

    partitions: list[ReportedPartition] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10003
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partitions", ReportedPartition, "0+", array=True),
    )


class ReportLiveReplicasResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0

    API_KEY: ClassVar[int] = 10003
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
    )
