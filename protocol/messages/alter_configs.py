"""AlterConfigsRequest and AlterConfigsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class AlterableConfig(Struct):
    """Inside AlterConfigsRequest."""

    name: str = ""
    value: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("value", "string", "0+", nullable="0+"),
    )


class AlterConfigsResource(Struct):
    """Inside AlterConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("configs", AlterableConfig, "0+", array=True),
    )


class AlterConfigsRequest(Struct):
    """Versions 0-2, flexible: 2+."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False

    API_KEY: ClassVar[int] = 33
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resources", AlterConfigsResource, "0+", array=True),
        Field("validate_only", "bool", "0+"),
    )


class AlterConfigsResourceResponse(Struct):
    """Inside AlterConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
    )


class AlterConfigsResponse(Struct):
    """Versions 0-2, flexible: 2+."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)

    API_KEY: ClassVar[int] = 33
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("responses", AlterConfigsResourceResponse, "0+", array=True),
    )
