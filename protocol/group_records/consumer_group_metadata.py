"""ConsumerGroupMetadataKey and ConsumerGroupMetadataValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from dataclasses import dataclass
from typing import ClassVar

from tailrace.protocol.fields import Field


@dataclass(slots=True)
class ConsumerGroupMetadataKey:
    """Versions 0, flexible: none."""

    group_id: str = ""

    RECORD_TYPE: ClassVar[int] = 3
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
    )


@dataclass(slots=True)
class ConsumerGroupMetadataValue:
    """Versions 0, flexible: 0+."""

    epoch: int = 0
    metadata_hash: int = 0

    RECORD_TYPE: ClassVar[int] = 3
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("metadata_hash", "int64", "0+", tag=0, tagged="0+"),
    )
