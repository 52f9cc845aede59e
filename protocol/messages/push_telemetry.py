"""PushTelemetryRequest and PushTelemetryResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class PushTelemetryRequest(Struct):
    """Versions 0, flexible: 0+."""

    client_instance_id: UUID = NO_UUID
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""

    API_KEY: ClassVar[int] = 72
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("client_instance_id", "uuid", "0+"),
        Field("subscription_id", "int32", "0+"),
        Field("terminating", "bool", "0+"),
        Field("compression_type", "int8", "0+"),
        Field("metrics", "bytes", "0+"),
    )


class PushTelemetryResponse(Struct):
    """Versions 0, flexible: 0+."""

    throttle_time_ms: int = 0
    error_code: int = 0

    API_KEY: ClassVar[int] = 72
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )
