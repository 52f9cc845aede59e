"""GroupMetadataKey and GroupMetadataValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class GroupMetadataKey(Struct):
    """Versions 0, flexible: none."""

    group: str = ""

    RECORD_TYPE: ClassVar[int] = 2
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", "0"),
    )


class MemberMetadata(Struct):
    """Inside GroupMetadataValue."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("rebalance_timeout", "int32", "1+"),
        Field("session_timeout", "int32", "0+"),
        Field("subscription", "bytes", "0+"),
        Field("assignment", "bytes", "0+"),
    )


class GroupMetadataValue(Struct):
    """Versions 0-4, flexible: 4+."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)

    RECORD_TYPE: ClassVar[int] = 2
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("protocol_type", "string", "0+"),
        Field("generation", "int32", "0+"),
        Field("protocol", "string", "0+", nullable="0+"),
        Field("leader", "string", "0+", nullable="0+"),
        Field("current_state_timestamp", "int64", "2+"),
        Field("members", MemberMetadata, "0+", array=True),
    )
