"""ListConfigResourcesRequest and ListConfigResourcesResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ListConfigResourcesRequest(Struct):
    """Versions 0-1, flexible: 0+."""

    resource_types: list[int] = field(default_factory=list)

    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_types", "int8", "1+", array=True),
    )


class ConfigResource(Struct):
    """Inside ListConfigResourcesResponse."""

    resource_name: str = ""
    resource_type: int = 16

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_name", "string", "0+"),
        Field("resource_type", "int8", "1+"),
    )


class ListConfigResourcesResponse(Struct):
    """Versions 0-1, flexible: 0+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = field(default_factory=list)

    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("config_resources", ConfigResource, "0+", array=True),
    )
