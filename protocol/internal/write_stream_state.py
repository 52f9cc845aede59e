"""WriteStreamStateRequest and WriteStreamStateResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class WriteStreamStateRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic: str = ""
    group: str = ""
    expected_version: int = 0
    state: str | None = None

    API_KEY: ClassVar[int] = 11008
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("group", "string", "0+"),
        Field("expected_version", "int64", "0+"),
        Field("state", "string", "0+", nullable="0+"),
    )


class WriteStreamStateResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    version: int = 0

    API_KEY: ClassVar[int] = 11008
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("version", "int64", "0+"),
    )
