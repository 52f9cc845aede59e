"""WriteArchiveHeadRequest and WriteArchiveHeadResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class WriteArchiveHeadRequest(Struct):
    """Versions 0, flexible: 0+."""

    archive: str = ""
    expected_version: int = 0
    head: str = ""

    API_KEY: ClassVar[int] = 11012
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("archive", "string", "0+"),
        Field("expected_version", "int64", "0+"),
        Field("head", "string", "0+"),
    )


class WriteArchiveHeadResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    version: int = 0

    API_KEY: ClassVar[int] = 11012
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("version", "int64", "0+"),
    )
