"""CreatePartitionsRequest and CreatePartitionsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class CreatePartitionsAssignment(Struct):
    """Inside CreatePartitionsRequest."""

    broker_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("broker_ids", "int32", "0+", array=True),
    )


class CreatePartitionsTopic(Struct):
    """Inside CreatePartitionsRequest."""

    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("count", "int32", "0+"),
        Field("assignments", CreatePartitionsAssignment, "0+", array=True, nullable="0+"),
    )


class CreatePartitionsRequest(Struct):
    """Versions 0-3, flexible: 2+."""

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False

    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[str] = "0-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", CreatePartitionsTopic, "0+", array=True),
        Field("timeout_ms", "int32", "0+"),
        Field("validate_only", "bool", "0+"),
    )


class CreatePartitionsTopicResult(Struct):
    """Inside CreatePartitionsResponse."""

    name: str = ""
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class CreatePartitionsResponse(Struct):
    """Versions 0-3, flexible: 2+."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[str] = "0-3"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", CreatePartitionsTopicResult, "0+", array=True),
    )
