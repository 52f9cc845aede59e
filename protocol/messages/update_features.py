"""UpdateFeaturesRequest and UpdateFeaturesResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class FeatureUpdateKey(Struct):
    """Inside UpdateFeaturesRequest."""

    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False
    upgrade_type: int = 1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("feature", "string", "0+"),
        Field("max_version_level", "int16", "0+"),
        Field("allow_downgrade", "bool", "0"),
        Field("upgrade_type", "int8", "1+"),
    )


class UpdateFeaturesRequest(Struct):
    """Versions 0-2, flexible: 0+."""

    timeout_ms: int = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = False

    API_KEY: ClassVar[int] = 57
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("timeout_ms", "int32", "0+"),
        Field("feature_updates", FeatureUpdateKey, "0+", array=True),
        Field("validate_only", "bool", "1+"),
    )


class UpdatableFeatureResult(Struct):
    """Inside UpdateFeaturesResponse."""

    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("feature", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class UpdateFeaturesResponse(Struct):
    """Versions 0-2, flexible: 0+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 57
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("results", UpdatableFeatureResult, "0-1", array=True),
    )
