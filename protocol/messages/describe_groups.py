"""DescribeGroupsRequest and DescribeGroupsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeGroupsRequest(Struct):
    """Versions 0-6, flexible: 5+."""

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    API_KEY: ClassVar[int] = 15
    VERSIONS: ClassVar[str] = "0-6"
    FLEXIBLE: ClassVar[str] = "5+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("groups", "string", "0+", array=True),
        Field("include_authorized_operations", "bool", "3+"),
    )


class DescribedGroupMember(Struct):
    """Inside DescribeGroupsResponse."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "4+", nullable="4+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("member_metadata", "bytes", "0+"),
        Field("member_assignment", "bytes", "0+"),
    )


class DescribedGroup(Struct):
    """Inside DescribeGroupsResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: int = -2147483648

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "6+", nullable="6+"),
        Field("group_id", "string", "0+"),
        Field("group_state", "string", "0+"),
        Field("protocol_type", "string", "0+"),
        Field("protocol_data", "string", "0+"),
        Field("members", DescribedGroupMember, "0+", array=True),
        Field("authorized_operations", "int32", "3+"),
    )


class DescribeGroupsResponse(Struct):
    """Versions 0-6, flexible: 5+."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)

    API_KEY: ClassVar[int] = 15
    VERSIONS: ClassVar[str] = "0-6"
    FLEXIBLE: ClassVar[str] = "5+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("groups", DescribedGroup, "0+", array=True),
    )
