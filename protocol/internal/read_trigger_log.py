"""ReadTriggerLogRequest and ReadTriggerLogResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ReadTriggerLogRequest(Struct):
    """Versions 0, flexible: 0+."""

    name: str = ""
    replica: str = ""
    after: int = -1
    bytes_max: int = 0

    API_KEY: ClassVar[int] = 11010
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("replica", "string", "0+"),
        Field("after", "int64", "0+"),
        Field("bytes_max", "int32", "0+"),
    )


class ReadTriggerLogResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    text: str = ""
    next: int = 0

    API_KEY: ClassVar[int] = 11010
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("text", "string", "0+"),
        Field("next", "int64", "0+"),
    )
