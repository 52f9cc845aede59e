"""TransactionLogKey and TransactionLogValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class TransactionLogKey(Struct):
    """Versions 0, flexible: none."""

    transactional_id: str = ""

    RECORD_TYPE: ClassVar[int] = 0
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0"),
    )


class PartitionsSchema(Struct):
    """Inside TransactionLogValue."""

    topic: str = ""
    partition_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partition_ids", "int32", "0+", array=True),
    )


class TransactionLogValue(Struct):
    """Versions 0-1, flexible: 1+."""

    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0

    RECORD_TYPE: ClassVar[int] = 0
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "1+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("previous_producer_id", "int64", "1+", tag=0, tagged="1+"),
        Field("next_producer_id", "int64", "1+", tag=1, tagged="1+"),
        Field("producer_epoch", "int16", "0+"),
        Field("next_producer_epoch", "int16", "1+", tag=3, tagged="1+"),
        Field("transaction_timeout_ms", "int32", "0+"),
        Field("transaction_status", "int8", "0+"),
        Field("transaction_partitions", PartitionsSchema, "0+", array=True, nullable="0+"),
        Field("transaction_last_update_timestamp_ms", "int64", "0+"),
        Field("transaction_start_timestamp_ms", "int64", "0+"),
        Field("client_transaction_version", "int16", "1+", tag=2, tagged="1+"),
    )
