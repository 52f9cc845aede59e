"""ConsumerGroupTargetAssignmentMemberKey and ConsumerGroupTargetAssignmentMemberValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class ConsumerGroupTargetAssignmentMemberKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""
    member_id: str = ""

    RECORD_TYPE: ClassVar[int] = 7
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
        Field("member_id", "string", "0"),
    )


class TopicPartition(Struct):
    """Inside ConsumerGroupTargetAssignmentMemberValue."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ConsumerGroupTargetAssignmentMemberValue(Struct):
    """Versions 0, flexible: 0+."""

    topic_partitions: list[TopicPartition] = field(default_factory=list)

    RECORD_TYPE: ClassVar[int] = 7
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", TopicPartition, "0+", array=True),
    )
