"""ReadArchiveHeadRequest and ReadArchiveHeadResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ReadArchiveHeadRequest(Struct):
    """Versions 0, flexible: 0+."""

    archive: str = ""

    API_KEY: ClassVar[int] = 11011
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("archive", "string", "0+"),
    )


class ReadArchiveHeadResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    version: int = 0
    head: str | None = None

    API_KEY: ClassVar[int] = 11011
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("version", "int64", "0+"),
        Field("head", "string", "0+", nullable="0+"),
    )
