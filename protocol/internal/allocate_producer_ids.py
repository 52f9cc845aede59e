"""AllocateProducerIdsRequest and AllocateProducerIdsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class AllocateProducerIdsRequest(Struct):
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 10004
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()


class AllocateProducerIdsResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    first_id: int = -1
    count: int = 0

    API_KEY: ClassVar[int] = 10004
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("first_id", "int64", "0+"),
        Field("count", "int32", "0+"),
    )
