"""HeartbeatRequest and HeartbeatResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class HeartbeatRequest(Struct):
    """Versions 0-4, flexible: 4+."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None

    API_KEY: ClassVar[int] = 12
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("generation_id", "int32", "0+"),
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
    )


class HeartbeatResponse(Struct):
    """Versions 0-4, flexible: 4+."""

    throttle_time_ms: int = 0
    error_code: int = 0

    API_KEY: ClassVar[int] = 12
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "0+"),
    )
