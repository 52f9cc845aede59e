"""FindCoordinatorRequest and FindCoordinatorResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class FindCoordinatorRequest(Struct):
    """Versions 0-6, flexible: 3+."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10
    VERSIONS: ClassVar[str] = "0-6"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0-3"),
        Field("key_type", "int8", "1+"),
        Field("coordinator_keys", "string", "4+", array=True),
    )


class Coordinator(Struct):
    """Inside FindCoordinatorResponse."""

    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "4+"),
        Field("node_id", "int32", "4+"),
        Field("host", "string", "4+"),
        Field("port", "int32", "4+"),
        Field("error_code", "int16", "4+"),
        Field("error_message", "string", "4+", nullable="4+"),
    )


class FindCoordinatorResponse(Struct):
    """Versions 0-6, flexible: 3+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinator] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10
    VERSIONS: ClassVar[str] = "0-6"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "0-3"),
        Field("error_message", "string", "1-3", nullable="1-3"),
        Field("node_id", "int32", "0-3"),
        Field("host", "string", "0-3"),
        Field("port", "int32", "0-3"),
        Field("coordinators", Coordinator, "4+", array=True),
    )
