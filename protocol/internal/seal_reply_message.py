"""SealReplyMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class DescribedEntry(Struct):
    """Inside SealReplyMessage."""

    base: int = 0
    end: int = 0
    epoch: int = 0
    kind: int = 0
    content: int = 0
    size: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("epoch", "int32", "0+"),
        Field("kind", "int8", "0+"),
        Field("content", "uint32", "0+"),
        Field("size", "int32", "0+"),
    )


class SealReplyMessage(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    epoch: int = 0
    high_watermark: int = 0
    log_start: int = 0
    log_end: int = 0
    in_doubt: bool = False
    entries: list[DescribedEntry] = field(default_factory=list)
    high_watermark_epoch: int = 0

    API_KEY: ClassVar[int] = 10104
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("in_doubt", "bool", "0+"),
        Field("entries", DescribedEntry, "0+", array=True),
        Field("high_watermark_epoch", "int32", "0+"),
    )
