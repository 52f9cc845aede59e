"""CreateAclsRequest and CreateAclsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class AclCreation(Struct):
    """Inside CreateAclsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("resource_pattern_type", "int8", "1+"),
        Field("principal", "string", "0+"),
        Field("host", "string", "0+"),
        Field("operation", "int8", "0+"),
        Field("permission_type", "int8", "0+"),
    )


class CreateAclsRequest(Struct):
    """Versions 1-3, flexible: 2+."""

    creations: list[AclCreation] = field(default_factory=list)

    API_KEY: ClassVar[int] = 30
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("creations", AclCreation, "0+", array=True),
    )


class AclCreationResult(Struct):
    """Inside CreateAclsResponse."""

    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class CreateAclsResponse(Struct):
    """Versions 1-3, flexible: 2+."""

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 30
    VERSIONS: ClassVar[str] = "1-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", AclCreationResult, "0+", array=True),
    )
