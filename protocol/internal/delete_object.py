"""DeleteObjectRequest and DeleteObjectResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class DeleteObjectRequest(Struct):
    """Versions 0, flexible: 0+."""

    kind: str = ""
    name: str = ""
    force: bool = False

    API_KEY: ClassVar[int] = 11003
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("kind", "string", "0+"),
        Field("name", "string", "0+"),
        Field("force", "bool", "0+"),
    )


class DeleteObjectResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None

    API_KEY: ClassVar[int] = 11003
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )
