"""DescribeTransactionsRequest and DescribeTransactionsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class DescribeTransactionsRequest(Struct):
    """Versions 0, flexible: 0+."""

    transactional_ids: list[str] = field(default_factory=list)

    API_KEY: ClassVar[int] = 65
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_ids", "string", "0+", array=True),
    )


class TopicData(Struct):
    """Inside DescribeTransactionsResponse."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class TransactionState(Struct):
    """Inside DescribeTransactionsResponse."""

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[TopicData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("transactional_id", "string", "0+"),
        Field("transaction_state", "string", "0+"),
        Field("transaction_timeout_ms", "int32", "0+"),
        Field("transaction_start_time_ms", "int64", "0+"),
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int16", "0+"),
        Field("topics", TopicData, "0+", array=True),
    )


class DescribeTransactionsResponse(Struct):
    """Versions 0, flexible: 0+."""

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = field(default_factory=list)

    API_KEY: ClassVar[int] = 65
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("transaction_states", TransactionState, "0+", array=True),
    )
