"""ForwardRequest and ForwardResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ForwardRequest(Struct):
    """Versions 0, flexible: 0+."""

    api_key: int = 0
    api_version: int = 0
    body: bytes = b""

    API_KEY: ClassVar[int] = 10005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("api_key", "int16", "0+"),
        Field("api_version", "int16", "0+"),
        Field("body", "bytes", "0+"),
    )


class ForwardResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    metadata_version: int = -1
    body: bytes = b""

    API_KEY: ClassVar[int] = 10005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("metadata_version", "int64", "0+"),
        Field("body", "bytes", "0+"),
    )
