"""ConsumerProtocolAssignment, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class TopicPartition(Struct):
    """Inside ConsumerProtocolAssignment."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ConsumerProtocolAssignment(Struct):
    """Versions 0-3, flexible: none."""

    assigned_partitions: list[TopicPartition] = field(default_factory=list)
    user_data: bytes | None = None

    VERSIONS: ClassVar[str] = "0-3"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assigned_partitions", TopicPartition, "0+", array=True),
        Field("user_data", "bytes", "0+", nullable="0+"),
    )
