"""InitProducerIdRequest and InitProducerIdResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class InitProducerIdRequest(Struct):
    """Versions 0-6, flexible: 2+."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False

    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[str] = "0-6"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0+", nullable="0+"),
        Field("transaction_timeout_ms", "int32", "0+"),
        Field("producer_id", "int64", "3+"),
        Field("producer_epoch", "int16", "3+"),
        Field("enable2_pc", "bool", "6+"),
        Field("keep_prepared_txn", "bool", "6+"),
    )


class InitProducerIdResponse(Struct):
    """Versions 0-6, flexible: 2+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1

    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[str] = "0-6"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int16", "0+"),
        Field("ongoing_txn_producer_id", "int64", "6+"),
        Field("ongoing_txn_producer_epoch", "int16", "6+"),
    )
