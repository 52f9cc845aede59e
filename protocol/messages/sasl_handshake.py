"""SaslHandshakeRequest and SaslHandshakeResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class SaslHandshakeRequest(Struct):
    """Versions 0-1, flexible: none."""

    mechanism: str = ""

    API_KEY: ClassVar[int] = 17
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("mechanism", "string", "0+"),
    )


class SaslHandshakeResponse(Struct):
    """Versions 0-1, flexible: none."""

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)

    API_KEY: ClassVar[int] = 17
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("mechanisms", "string", "0+", array=True),
    )
