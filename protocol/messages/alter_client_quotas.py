"""AlterClientQuotasRequest and AlterClientQuotasResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class EntityData(Struct):
    """Inside AlterClientQuotasRequest."""

    entity_type: str = ""
    entity_name: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity_type", "string", "0+"),
        Field("entity_name", "string", "0+", nullable="0+"),
    )


class OpData(Struct):
    """Inside AlterClientQuotasRequest."""

    key: str = ""
    value: float = 0.0
    remove: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0+"),
        Field("value", "float64", "0+"),
        Field("remove", "bool", "0+"),
    )


class EntryData(Struct):
    """Inside AlterClientQuotasRequest."""

    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity", EntityData, "0+", array=True),
        Field("ops", OpData, "0+", array=True),
    )


class AlterClientQuotasRequest(Struct):
    """Versions 0-1, flexible: 1+."""

    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool = False

    API_KEY: ClassVar[int] = 49
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "1+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entries", EntryData, "0+", array=True),
        Field("validate_only", "bool", "0+"),
    )


class AlterClientQuotasResponseEntryData(Struct):
    """Inside AlterClientQuotasResponse."""

    error_code: int = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("entity", EntityData, "0+", array=True),
    )


class AlterClientQuotasResponse(Struct):
    """Versions 0-1, flexible: 1+."""

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(default_factory=list)

    API_KEY: ClassVar[int] = 49
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "1+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("entries", AlterClientQuotasResponseEntryData, "0+", array=True),
    )
