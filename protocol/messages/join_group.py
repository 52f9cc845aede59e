"""JoinGroupRequest and JoinGroupResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class JoinGroupRequestProtocol(Struct):
    """Inside JoinGroupRequest."""

    name: str = ""
    metadata: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("metadata", "bytes", "0+"),
    )


class JoinGroupRequest(Struct):
    """Versions 0-9, flexible: 6+."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = None

    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[str] = "0-9"
    FLEXIBLE: ClassVar[str] = "6+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("session_timeout_ms", "int32", "0+"),
        Field("rebalance_timeout_ms", "int32", "1+"),
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "5+", nullable="5+"),
        Field("protocol_type", "string", "0+"),
        Field("protocols", JoinGroupRequestProtocol, "0+", array=True),
        Field("reason", "string", "8+", nullable="8+"),
    )


class JoinGroupResponseMember(Struct):
    """Inside JoinGroupResponse."""

    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "5+", nullable="5+"),
        Field("metadata", "bytes", "0+"),
    )


class JoinGroupResponse(Struct):
    """Versions 0-9, flexible: 6+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)

    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[str] = "0-9"
    FLEXIBLE: ClassVar[str] = "6+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("error_code", "int16", "0+"),
        Field("generation_id", "int32", "0+"),
        Field("protocol_type", "string", "7+", nullable="7+"),
        Field("protocol_name", "string", "0+", nullable="7+"),
        Field("leader", "string", "0+"),
        Field("skip_assignment", "bool", "9+"),
        Field("member_id", "string", "0+"),
        Field("members", JoinGroupResponseMember, "0+", array=True),
    )
