"""AppendAuditRequest and AppendAuditResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class AppendAuditRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic: str = ""
    key: bytes = b""
    lines: list[bytes] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10054
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("key", "bytes", "0+"),
        Field("lines", "bytes", "0+", array=True),
    )


class AppendAuditResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_message: str = ""

    API_KEY: ClassVar[int] = 10054
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_message", "string", "0+"),
    )
