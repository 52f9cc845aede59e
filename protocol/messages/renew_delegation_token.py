"""RenewDelegationTokenRequest and RenewDelegationTokenResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class RenewDelegationTokenRequest(Struct):
    """Versions 1-2, flexible: 2+."""

    hmac: bytes = b""
    renew_period_ms: int = 0

    API_KEY: ClassVar[int] = 39
    VERSIONS: ClassVar[str] = "1-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("hmac", "bytes", "1+"),
        Field("renew_period_ms", "int64", "1+"),
    )


class RenewDelegationTokenResponse(Struct):
    """Versions 1-2, flexible: 2+."""

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0

    API_KEY: ClassVar[int] = 39
    VERSIONS: ClassVar[str] = "1-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("expiry_timestamp_ms", "int64", "1+"),
        Field("throttle_time_ms", "int32", "1+"),
    )
