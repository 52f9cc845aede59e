"""ReportShelvesRequest and ReportShelvesResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class FilledShelf(Struct):
    """Inside ReportShelvesRequest."""

    base: int = 0
    spu_id: int = 0
    end: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("spu_id", "int32", "0+"),
        Field("end", "int64", "0+"),
    )


class ReportedPartition(Struct):
    """Inside ReportShelvesRequest."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    epoch: int = 0
    shelved_from: int = 0
    filled: list[FilledShelf] = field(default_factory=list)
    next_base: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("shelved_from", "int64", "0+"),
        Field("filled", FilledShelf, "0+", array=True),
        Field("next_base", "int64", "0+"),
    )


class ReportShelvesRequest(Struct):
    """Versions 0, flexible: 0+."""

    partitions: list[ReportedPartition] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10006
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partitions", ReportedPartition, "0+", array=True),
    )


class ReportShelvesResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0

    API_KEY: ClassVar[int] = 10006
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
    )
