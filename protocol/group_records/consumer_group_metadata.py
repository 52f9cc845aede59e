"""ConsumerGroupMetadataKey and ConsumerGroupMetadataValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ConsumerGroupMetadataKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""

    RECORD_TYPE: ClassVar[int] = 3
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
    )


class ConsumerGroupMetadataValue(Struct):
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
