"""ListTransactionsRequest and ListTransactionsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ListTransactionsRequest(Struct):
    """Versions 0-2, flexible: 0+."""

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    transactional_id_pattern: str | None = None

    API_KEY: ClassVar[int] = 66
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("state_filters", "string", "0+", array=True),
        Field("producer_id_filters", "int64", "0+", array=True),
        Field("duration_filter", "int64", "1+"),
        Field("transactional_id_pattern", "string", "2+", nullable="2+"),
    )


class TransactionState(Struct):
    """Inside ListTransactionsResponse."""

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0+"),
        Field("producer_id", "int64", "0+"),
        Field("transaction_state", "string", "0+"),
    )


class ListTransactionsResponse(Struct):
    """Versions 0-2, flexible: 0+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)

    API_KEY: ClassVar[int] = 66
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("unknown_state_filters", "string", "0+", array=True),
        Field("transaction_states", TransactionState, "0+", array=True),
    )
