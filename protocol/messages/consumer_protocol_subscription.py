"""ConsumerProtocolSubscription, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class TopicPartition(Struct):
    """Inside ConsumerProtocolSubscription."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "1+"),
        Field("partitions", "int32", "1+", array=True),
    )


class ConsumerProtocolSubscription(Struct):
    """Versions 0-3, flexible: none."""

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None

    VERSIONS: ClassVar[str] = "0-3"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", "0+", array=True),
        Field("user_data", "bytes", "0+", nullable="0+"),
        Field("owned_partitions", TopicPartition, "1+", array=True),
        Field("generation_id", "int32", "2+"),
        Field("rack_id", "string", "3+", nullable="3+"),
    )
