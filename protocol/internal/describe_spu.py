"""DescribeSpuRequest and DescribeSpuResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeSpuRequest(Struct):
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 12002
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()


class FollowerOfLeader(Struct):
    """Inside DescribeSpuResponse."""

    leader_id: int = 0
    replicas: int = 0
    is_linked: bool = False
    dialled_links: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("leader_id", "int32", "0+"),
        Field("replicas", "int32", "0+"),
        Field("is_linked", "bool", "0+"),
        Field("dialled_links", "int64", "0+"),
    )


class FollowerOfThis(Struct):
    """Inside DescribeSpuResponse."""

    spu_id: int = 0
    replicas: int = 0
    is_linked: bool = False
    waiting_records: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("replicas", "int32", "0+"),
        Field("is_linked", "bool", "0+"),
        Field("waiting_records", "int64", "0+"),
    )


class DescribeSpuResponse(Struct):
    """Versions 0, flexible: 0+."""

    log_directory: str = ""
    leader_controllers: int = 0
    follower_controllers: list[FollowerOfLeader] = field(default_factory=list)
    followers: list[FollowerOfThis] = field(default_factory=list)
    error_code: int = 0
    error_message: str | None = None

    API_KEY: ClassVar[int] = 12002
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("log_directory", "string", "0+"),
        Field("leader_controllers", "int32", "0+"),
        Field("follower_controllers", FollowerOfLeader, "0+", array=True),
        Field("followers", FollowerOfThis, "0+", array=True),
        Field("error_code", "int16", "0+", tag=0, tagged="0+"),
        Field("error_message", "string", "0+", nullable="0+", tag=1, tagged="0+"),
    )
