"""DescribePartitionsRequest and DescribePartitionsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class DescribePartitionsRequest(Struct):
    """Versions 0, flexible: 0+."""

    topics: list[str] | None = None
    epochs_max: int = 0
    changes_after_us: int = -1

    API_KEY: ClassVar[int] = 11005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", "0+", array=True, nullable="0+"),
        Field("epochs_max", "int32", "0+", tag=0, tagged="0+"),
        Field("changes_after_us", "int64", "0+", tag=1, tagged="0+"),
    )


class EpochStart(Struct):
    """Inside DescribePartitionsResponse."""

    epoch: int = 0
    start: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("start", "int64", "0+"),
    )


class ReplicaDetail(Struct):
    """Inside DescribePartitionsResponse."""

    spu_id: int = 0
    log_start: int = -1
    log_end: int = -1
    high_watermark: int = -1
    size_bytes: int = -1
    error_message: str | None = None
    epoch: int = -1
    epochs: list[EpochStart] = field(default_factory=list)
    older_epochs: int = 0
    is_leader: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("size_bytes", "int64", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("epoch", "int32", "0+", tag=0, tagged="0+"),
        Field("epochs", EpochStart, "0+", array=True, tag=1, tagged="0+"),
        Field("older_epochs", "int32", "0+", tag=2, tagged="0+"),
        Field("is_leader", "bool", "0+", tag=3, tagged="0+"),
    )


class StatusChange(Struct):
    """Inside DescribePartitionsResponse."""

    time_us: int = 0
    resolution: str = ""
    leader: int = -1
    epoch: int = -1
    reason: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("time_us", "int64", "0+"),
        Field("resolution", "string", "0+"),
        Field("leader", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("reason", "string", "0+"),
    )


class DescribedShelf(Struct):
    """Inside DescribePartitionsResponse."""

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


class DescribedPartition(Struct):
    """Inside DescribePartitionsResponse."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partition: int = 0
    resolution: str = ""
    leader: int = -1
    epoch: int = -1
    replicas: list[int] = field(default_factory=list)
    live_replicas: list[int] = field(default_factory=list)
    reason: str = ""
    details: list[ReplicaDetail] = field(default_factory=list)
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    status_changes: list[StatusChange] = field(default_factory=list)
    shelved_from: int = 0
    shelves: list[DescribedShelf] = field(default_factory=list)
    electable: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("resolution", "string", "0+"),
        Field("leader", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("replicas", "int32", "0+", array=True),
        Field("live_replicas", "int32", "0+", array=True),
        Field("reason", "string", "0+"),
        Field("details", ReplicaDetail, "0+", array=True),
        Field("adding", "int32", "0+", array=True),
        Field("removing", "int32", "0+", array=True),
        Field("status_changes", StatusChange, "0+", array=True, tag=0, tagged="0+"),
        Field("shelved_from", "int64", "0+", tag=1, tagged="0+"),
        Field("shelves", DescribedShelf, "0+", array=True, tag=2, tagged="0+"),
        Field("electable", "int32", "0+", array=True, tag=3, tagged="0+"),
    )


class DescribePartitionsResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    partitions: list[DescribedPartition] = field(default_factory=list)
    last_change_us: int = -1

    API_KEY: ClassVar[int] = 11005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("partitions", DescribedPartition, "0+", array=True),
        Field("last_change_us", "int64", "0+", tag=0, tagged="0+"),
    )
