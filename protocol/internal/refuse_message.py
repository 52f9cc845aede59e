"""RefuseMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class RefuseMessage(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str = ""

    API_KEY: ClassVar[int] = 10101
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+"),
    )
