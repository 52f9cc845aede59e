"""ForwardRequest and ForwardResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ForwardRequest(Struct):
    """Versions 0, flexible: 0+."""

    api_key: int = 0
    api_version: int = 0
    body: bytes = b""
    principal: str = ""
    host: str = ""
    client_id: str | None = None
    protocol: str = ""
    mechanism: str = ""
    is_token: bool = False

    API_KEY: ClassVar[int] = 10005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("api_key", "int16", "0+"),
        Field("api_version", "int16", "0+"),
        Field("body", "bytes", "0+"),
        Field("principal", "string", "0+", tag=0, tagged="0+"),
        Field("host", "string", "0+", tag=1, tagged="0+"),
        Field("client_id", "string", "0+", nullable="0+", tag=2, tagged="0+"),
        Field("protocol", "string", "0+", tag=3, tagged="0+"),
        Field("mechanism", "string", "0+", tag=4, tagged="0+"),
        Field("is_token", "bool", "0+", tag=5, tagged="0+"),
    )


class ForwardResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    metadata_version: int = -1
    body: bytes = b""

    API_KEY: ClassVar[int] = 10005
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("metadata_version", "int64", "0+"),
        Field("body", "bytes", "0+"),
    )
