"""DeleteTopicsRequest and DeleteTopicsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class DeleteTopicState(Struct):
    """Inside DeleteTopicsRequest."""

    name: str | None = None
    topic_id: UUID = NO_UUID

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "6+", nullable="6+"),
        Field("topic_id", "uuid", "6+"),
    )


class DeleteTopicsRequest(Struct):
    """Versions 1-6, flexible: 4+."""

    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0

    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[str] = "1-6"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DeleteTopicState, "6+", array=True),
        Field("topic_names", "string", "0-5", array=True),
        Field("timeout_ms", "int32", "0+"),
    )


class DeletableTopicResult(Struct):
    """Inside DeleteTopicsResponse."""

    name: str | None = ""
    topic_id: UUID = NO_UUID
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+", nullable="6+"),
        Field("topic_id", "uuid", "6+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "5+", nullable="5+"),
    )


class DeleteTopicsResponse(Struct):
    """Versions 1-6, flexible: 4+."""

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[str] = "1-6"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("responses", DeletableTopicResult, "0+", array=True),
    )
