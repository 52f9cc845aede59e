"""AppendReplyMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class AppendReplyMessage(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    epoch: int = 0
    matched_end: int = 0
    log_end: int = 0
    high_watermark: int = 0
    missed: bool = False
    log_start: int = 0

    API_KEY: ClassVar[int] = 10106
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("matched_end", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("missed", "bool", "0+"),
        Field("log_start", "int64", "0+"),
    )
