"""ConsumerGroupTargetAssignmentMetadataKey and ConsumerGroupTargetAssignmentMetadataValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ConsumerGroupTargetAssignmentMetadataKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""

    RECORD_TYPE: ClassVar[int] = 6
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
    )


class ConsumerGroupTargetAssignmentMetadataValue(Struct):
    """Versions 0, flexible: 0+."""

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

    RECORD_TYPE: ClassVar[int] = 6
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assignment_epoch", "int32", "0+"),
        Field("assignment_timestamp", "int64", "0+", tag=0, tagged="0+"),
    )
