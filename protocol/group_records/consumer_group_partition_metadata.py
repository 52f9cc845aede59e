"""ConsumerGroupPartitionMetadataKey and ConsumerGroupPartitionMetadataValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class ConsumerGroupPartitionMetadataKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""

    RECORD_TYPE: ClassVar[int] = 4
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
    )


class PartitionMetadata(Struct):
    """Inside ConsumerGroupPartitionMetadataValue."""

    partition: int = 0
    racks: list[str] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("racks", "string", "0+", array=True),
    )


class TopicMetadata(Struct):
    """Inside ConsumerGroupPartitionMetadataValue."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("topic_name", "string", "0+"),
        Field("num_partitions", "int32", "0+"),
        Field("partition_metadata", PartitionMetadata, "0+", array=True),
    )


class ConsumerGroupPartitionMetadataValue(Struct):
    """Versions 0, flexible: 0+."""

    topics: list[TopicMetadata] = field(default_factory=list)

    RECORD_TYPE: ClassVar[int] = 4
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", TopicMetadata, "0+", array=True),
    )
