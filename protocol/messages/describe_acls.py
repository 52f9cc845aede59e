"""DescribeAclsRequest and DescribeAclsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeAclsRequest(Struct):
    """Versions 1-3, flexible: 2+."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

    API_KEY: ClassVar[int] = 29
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type_filter", "int8", "0+"),
        Field("resource_name_filter", "string", "0+", nullable="0+"),
        Field("pattern_type_filter", "int8", "1+"),
        Field("principal_filter", "string", "0+", nullable="0+"),
        Field("host_filter", "string", "0+", nullable="0+"),
        Field("operation", "int8", "0+"),
        Field("permission_type", "int8", "0+"),
    )


class AclDescription(Struct):
    """Inside DescribeAclsResponse."""

    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal", "string", "0+"),
        Field("host", "string", "0+"),
        Field("operation", "int8", "0+"),
        Field("permission_type", "int8", "0+"),
    )


class DescribeAclsResource(Struct):
    """Inside DescribeAclsResponse."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[AclDescription] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("pattern_type", "int8", "1+"),
        Field("acls", AclDescription, "0+", array=True),
    )


class DescribeAclsResponse(Struct):
    """Versions 1-3, flexible: 2+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)

    API_KEY: ClassVar[int] = 29
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("resources", DescribeAclsResource, "0+", array=True),
    )
