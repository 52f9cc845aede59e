"""SaslAuthenticateRequest and SaslAuthenticateResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class SaslAuthenticateRequest(Struct):
    """Versions 0-2, flexible: 2+."""

    auth_bytes: bytes = b""

    API_KEY: ClassVar[int] = 36
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("auth_bytes", "bytes", "0+"),
    )


class SaslAuthenticateResponse(Struct):
    """Versions 0-2, flexible: 2+."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0

    API_KEY: ClassVar[int] = 36
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("auth_bytes", "bytes", "0+"),
        Field("session_lifetime_ms", "int64", "1+"),
    )
