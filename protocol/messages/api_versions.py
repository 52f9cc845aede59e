"""ApiVersionsRequest and ApiVersionsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ApiVersionsRequest(Struct):
    """Versions 0-4, flexible: 3+."""

    client_software_name: str = ""
    client_software_version: str = ""

    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("client_software_name", "string", "3+"),
        Field("client_software_version", "string", "3+"),
    )


class ApiVersion(Struct):
    """Inside ApiVersionsResponse."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("api_key", "int16", "0+"),
        Field("min_version", "int16", "0+"),
        Field("max_version", "int16", "0+"),
    )


class SupportedFeatureKey(Struct):
    """Inside ApiVersionsResponse."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "3+"),
        Field("min_version", "int16", "3+"),
        Field("max_version", "int16", "3+"),
    )


class FinalizedFeatureKey(Struct):
    """Inside ApiVersionsResponse."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "3+"),
        Field("max_version_level", "int16", "3+"),
        Field("min_version_level", "int16", "3+"),
    )


class ApiVersionsResponse(Struct):
    """Versions 0-4, flexible: 3+."""

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)
    zk_migration_ready: bool = False

    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("api_keys", ApiVersion, "0+", array=True),
        Field("throttle_time_ms", "int32", "1+"),
        Field("supported_features", SupportedFeatureKey, "3+", array=True, tag=0, tagged="3+"),
        Field("finalized_features_epoch", "int64", "3+", tag=1, tagged="3+"),
        Field("finalized_features", FinalizedFeatureKey, "3+", array=True, tag=2, tagged="3+"),
        Field("zk_migration_ready", "bool", "3+", tag=3, tagged="3+"),
    )
