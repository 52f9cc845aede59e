"""ReportTriggerRequest and ReportTriggerResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ReportTriggerRequest(Struct):
    """Versions 0, flexible: 0+."""

    name: str = ""
    replica: str = ""
    document: str = ""

    API_KEY: ClassVar[int] = 11009
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("replica", "string", "0+"),
        Field("document", "string", "0+"),
    )


class ReportTriggerResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None

    API_KEY: ClassVar[int] = 11009
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )
