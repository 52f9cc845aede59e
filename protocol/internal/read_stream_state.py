"""ReadStreamStateRequest and ReadStreamStateResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ReadStreamStateRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic: str = ""
    group: str | None = None

    API_KEY: ClassVar[int] = 11007
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("group", "string", "0+", nullable="0+"),
    )


class HeartbeatAge(Struct):
    """Inside ReadStreamStateResponse."""

    member_id: str = ""
    age_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("age_ms", "int64", "0+"),
    )


class StreamGroup(Struct):
    """Inside ReadStreamStateResponse."""

    group: str = ""
    version: int = 0
    state: str = ""
    ages: list[HeartbeatAge] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", "0+"),
        Field("version", "int64", "0+"),
        Field("state", "string", "0+"),
        Field("ages", HeartbeatAge, "0+", array=True),
    )


class ReadStreamStateResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    shards: int = 0
    replicas: int = 0
    groups: list[StreamGroup] = field(default_factory=list)

    API_KEY: ClassVar[int] = 11007
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("shards", "int32", "0+"),
        Field("replicas", "int32", "0+"),
        Field("groups", StreamGroup, "0+", array=True),
    )
