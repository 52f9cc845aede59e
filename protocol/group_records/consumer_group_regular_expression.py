"""ConsumerGroupRegularExpressionKey and ConsumerGroupRegularExpressionValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ConsumerGroupRegularExpressionKey(Struct):
    """Versions 0, flexible: none."""

    group_id: str = ""
    regular_expression: str = ""

    RECORD_TYPE: ClassVar[int] = 16
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0"),
        Field("regular_expression", "string", "0"),
    )


class ConsumerGroupRegularExpressionValue(Struct):
    """Versions 0, flexible: 0+."""

    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0

    RECORD_TYPE: ClassVar[int] = 16
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", "0+", array=True),
        Field("version", "int64", "0+"),
        Field("timestamp", "int64", "0+"),
    )
