"""UndeleteTopicRequest and UndeleteTopicResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class UndeleteTopicRequest(Struct):
    """Versions 0, flexible: 0+."""

    name_or_id: str = ""

    API_KEY: ClassVar[int] = 11004
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name_or_id", "string", "0+"),
    )


class UndeleteTopicResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    document: str = ""

    API_KEY: ClassVar[int] = 11004
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("document", "string", "0+"),
    )
