"""ReadShelfRequest and ReadShelfResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class ReadShelfRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    base: int = 0
    end: int = 0
    offset: int = 0
    bytes_max: int = 0
    timestamp: int = -1

    API_KEY: ClassVar[int] = 12005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("offset", "int64", "0+"),
        Field("bytes_max", "int32", "0+"),
        Field("timestamp", "int64", "0+"),
    )


class AbortedOnShelf(Struct):
    """Inside ReadShelfResponse."""

    producer_id: int = 0
    first_offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("first_offset", "int64", "0+"),
    )


class ReadShelfResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = ""
    found_timestamp: int = -1
    found_offset: int = -1
    found_epoch: int = -1
    records: bytes = b""
    aborted: list[AbortedOnShelf] = field(default_factory=list)

    API_KEY: ClassVar[int] = 12005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("found_timestamp", "int64", "0+"),
        Field("found_offset", "int64", "0+"),
        Field("found_epoch", "int32", "0+"),
        Field("records", "bytes", "0+"),
        Field("aborted", AbortedOnShelf, "0+", array=True, tag=0, tagged="0+"),
    )
