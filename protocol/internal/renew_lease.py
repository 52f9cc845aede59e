"""RenewLeaseRequest and RenewLeaseResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class RenewLeaseRequest(Struct):
    """Versions 0, flexible: 0+."""

    used_bytes: int = -1
    size_bytes: int = -1

    API_KEY: ClassVar[int] = 10001
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("used_bytes", "int64", "0+", tag=0, tagged="0+"),
        Field("size_bytes", "int64", "0+", tag=1, tagged="0+"),
    )


class RenewLeaseResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0

    API_KEY: ClassVar[int] = 10001
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
    )
