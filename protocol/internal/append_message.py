"""AppendMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID, Records


class BegunEpoch(Struct):
    """Inside AppendMessage."""

    epoch: int = 0
    start: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("start", "int64", "0+"),
    )


class AppendMessage(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    epoch: int = 0
    base: int = 0
    high_watermark: int = 0
    log_end: int = 0
    log_start: int = 0
    live_replicas: list[int] = field(default_factory=list)
    stamped_end: int = 0
    epochs: list[BegunEpoch] = field(default_factory=list)
    high_watermark_epoch: int = 0
    producers: bytes = b""
    records: Records | None = None

    API_KEY: ClassVar[int] = 10105
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("base", "int64", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("log_start", "int64", "0+"),
        Field("live_replicas", "int32", "0+", array=True),
        Field("stamped_end", "int64", "0+"),
        Field("epochs", BegunEpoch, "0+", array=True),
        Field("high_watermark_epoch", "int32", "0+"),
        Field("producers", "bytes", "0+", tag=0, tagged="0+"),
        Field("records", "records", "0+", nullable="0+"),
    )
