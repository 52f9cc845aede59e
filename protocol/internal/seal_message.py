"""SealMessage, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class EpochBeginning(Struct):
    """Inside SealMessage."""

    epoch: int = 0
    start: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("start", "int64", "0+"),
    )


class SealMessage(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    epoch: int = 0
    entries_from: int = 0
    log_start: int = 0
    log_end: int = 0
    epochs: list[EpochBeginning] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10103
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("entries_from", "int64", "0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("epochs", EpochBeginning, "0+", array=True),
    )
