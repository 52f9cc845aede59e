"""ListObjectsRequest and ListObjectsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ListObjectsRequest(Struct):
    """Versions 0, flexible: 0+."""

    kind: str = ""
    names: list[str] | None = None

    API_KEY: ClassVar[int] = 11000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("kind", "string", "0+"),
        Field("names", "string", "0+", array=True, nullable="0+"),
    )


class ListedObject(Struct):
    """Inside ListObjectsResponse."""

    name: str = ""
    document: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("document", "string", "0+"),
    )


class ListObjectsResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    objects: list[ListedObject] = field(default_factory=list)

    API_KEY: ClassVar[int] = 11000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("objects", ListedObject, "0+", array=True),
    )
