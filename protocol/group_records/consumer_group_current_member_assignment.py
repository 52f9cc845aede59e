"""ConsumerGroupCurrentMemberAssignmentKey and ConsumerGroupCurrentMemberAssignmentValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class ConsumerGroupCurrentMemberAssignmentKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""
    member_id: str = ""

    RECORD_TYPE: ClassVar[int] = 8
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
        Field("member_id", "string", "0"),
    )


class TopicPartitions(Struct):
    """Inside ConsumerGroupCurrentMemberAssignmentValue."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)
    assignment_epochs: list[int] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
        Field("assignment_epochs", "int32", "0+", array=True, nullable="0+", tag=0, tagged="0+"),
    )


class ConsumerGroupCurrentMemberAssignmentValue(Struct):
    """Versions 0, flexible: 0+."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)

    RECORD_TYPE: ClassVar[int] = 8
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_epoch", "int32", "0+"),
        Field("previous_member_epoch", "int32", "0+"),
        Field("state", "int8", "0+"),
        Field("assigned_partitions", TopicPartitions, "0+", array=True),
        Field("partitions_pending_revocation", TopicPartitions, "0+", array=True),
    )
