"""DeleteGroupsRequest and DeleteGroupsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DeleteGroupsRequest(Struct):
    """Versions 0-2, flexible: 2+."""

    groups_names: list[str] = field(default_factory=list)

    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("groups_names", "string", "0+", array=True),
    )


class DeletableGroupResult(Struct):
    """Inside DeleteGroupsResponse."""

    group_id: str = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("error_code", "int16", "0+"),
    )


class DeleteGroupsResponse(Struct):
    """Versions 0-2, flexible: 2+."""

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", DeletableGroupResult, "0+", array=True),
    )
