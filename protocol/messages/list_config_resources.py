"""ListConfigResourcesRequest and ListConfigResourcesResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from dataclasses import dataclass, field
from typing import ClassVar

from tailrace.protocol.fields import Field


@dataclass(slots=True)
class ListConfigResourcesRequest:
    """Versions 0-1, flexible: 0+."""

    resource_types: list[int] = field(default_factory=list)

    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_types", "int8", "1+", array=True),
    )


@dataclass(slots=True)
class ConfigResource:
    """Inside ListConfigResourcesResponse."""

    resource_name: str = ""
    resource_type: int = 16

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_name", "string", "0+"),
        Field("resource_type", "int8", "1+"),
    )


@dataclass(slots=True)
class ListConfigResourcesResponse:
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
