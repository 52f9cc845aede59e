"""ConsumerGroupMemberMetadataKey and ConsumerGroupMemberMetadataValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ConsumerGroupMemberMetadataKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""
    member_id: str = ""

    RECORD_TYPE: ClassVar[int] = 5
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
        Field("member_id", "string", "0"),
    )


class ClassicProtocol(Struct):
    """Inside ConsumerGroupMemberMetadataValue."""

    name: str = ""
    metadata: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("metadata", "bytes", "0+"),
    )


class ClassicMemberMetadata(Struct):
    """Inside ConsumerGroupMemberMetadataValue."""

    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("session_timeout_ms", "int32", "0+"),
        Field("supported_protocols", ClassicProtocol, "0+", array=True),
    )


class ConsumerGroupMemberMetadataValue(Struct):
    """Versions 0, flexible: 0+."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None

    RECORD_TYPE: ClassVar[int] = 5
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("subscribed_topic_names", "string", "0+", array=True),
        Field("subscribed_topic_regex", "string", "0+", nullable="0+"),
        Field("rebalance_timeout_ms", "int32", "0+"),
        Field("server_assignor", "string", "0+", nullable="0+"),
        Field("classic_member_metadata", ClassicMemberMetadata, "0+", nullable="0+", tag=0, tagged="0+"),
    )
