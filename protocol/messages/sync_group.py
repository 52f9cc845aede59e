"""SyncGroupRequest and SyncGroupResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class SyncGroupRequestAssignment(Struct):
    """Inside SyncGroupRequest."""

    member_id: str = ""
    assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("assignment", "bytes", "0+"),
    )


class SyncGroupRequest(Struct):
    """Versions 0-5, flexible: 4+."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)

    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[str] = "0-5"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("generation_id", "int32", "0+"),
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("protocol_type", "string", "5+", nullable="5+"),
        Field("protocol_name", "string", "5+", nullable="5+"),
        Field("assignments", SyncGroupRequestAssignment, "0+", array=True),
    )


class SyncGroupResponse(Struct):
    """Versions 0-5, flexible: 4+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[str] = "0-5"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "0+"),
        Field("protocol_type", "string", "5+", nullable="5+"),
        Field("protocol_name", "string", "5+", nullable="5+"),
        Field("assignment", "bytes", "0+"),
    )
