"""DescribeConfigsRequest and DescribeConfigsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeConfigsResource(Struct):
    """Inside DescribeConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("configuration_keys", "string", "0+", array=True, nullable="0+"),
    )


class DescribeConfigsRequest(Struct):
    """Versions 1-4, flexible: 4+."""

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False

    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[str] = "1-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resources", DescribeConfigsResource, "0+", array=True),
        Field("include_synonyms", "bool", "1+"),
        Field("include_documentation", "bool", "3+"),
    )


class DescribeConfigsSynonym(Struct):
    """Inside DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    source: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("value", "string", "1+", nullable="0+"),
        Field("source", "int8", "1+"),
    )


class DescribeConfigsResourceResult(Struct):
    """Inside DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_default: bool = False
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int = 0
    documentation: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("value", "string", "0+", nullable="0+"),
        Field("read_only", "bool", "0+"),
        Field("config_source", "int8", "1+"),
        Field("is_default", "bool", "0"),
        Field("is_sensitive", "bool", "0+"),
        Field("synonyms", DescribeConfigsSynonym, "1+", array=True),
        Field("config_type", "int8", "3+"),
        Field("documentation", "string", "3+", nullable="0+"),
    )


class DescribeConfigsResult(Struct):
    """Inside DescribeConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("configs", DescribeConfigsResourceResult, "0+", array=True),
    )


class DescribeConfigsResponse(Struct):
    """Versions 1-4, flexible: 4+."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[str] = "1-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", DescribeConfigsResult, "0+", array=True),
    )
