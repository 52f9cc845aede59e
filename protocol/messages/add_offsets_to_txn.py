"""AddOffsetsToTxnRequest and AddOffsetsToTxnResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class AddOffsetsToTxnRequest(Struct):
    """Versions 0-4, flexible: 3+."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""

    API_KEY: ClassVar[int] = 25
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0+"),
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int16", "0+"),
        Field("group_id", "string", "0+"),
    )


class AddOffsetsToTxnResponse(Struct):
    """Versions 0-4, flexible: 3+."""

    throttle_time_ms: int = 0
    error_code: int = 0

    API_KEY: ClassVar[int] = 25
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )
