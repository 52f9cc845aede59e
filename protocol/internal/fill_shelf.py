"""FillShelfRequest and FillShelfResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class FillShelfRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    base: int = 0
    end: int = 0
    leader_id: int = 0

    API_KEY: ClassVar[int] = 12004
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("leader_id", "int32", "0+"),
    )


class ShelvedSegment(Struct):
    """Inside FillShelfResponse."""

    base: int = 0
    end: int = 0
    size_bytes: int = 0
    first_timestamp: int = 0
    max_timestamp: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("size_bytes", "int64", "0+"),
        Field("first_timestamp", "int64", "0+"),
        Field("max_timestamp", "int64", "0+"),
    )


class FillShelfResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = ""
    end: int = -1
    segments: list[ShelvedSegment] = field(default_factory=list)

    API_KEY: ClassVar[int] = 12004
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("end", "int64", "0+"),
        Field("segments", ShelvedSegment, "0+", array=True),
    )
