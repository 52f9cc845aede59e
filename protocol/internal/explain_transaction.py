"""ExplainTransactionRequest and ExplainTransactionResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct

from tailrace.protocol.codec.fields import Field


class ExplainTransactionRequest(Struct):
    """Versions 0, flexible: 0+."""

    transactional_id: str = ""

    API_KEY: ClassVar[int] = 12006
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0+"),
    )


class ExplainTransactionResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    now_ms: int = 0
    partition: int = 0
    epoch: int = 0
    loaded_ms: int = 0
    client_id: str | None = None
    host: str | None = None

    API_KEY: ClassVar[int] = 12006
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("now_ms", "int64", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("loaded_ms", "int64", "0+"),
        Field("client_id", "string", "0+", nullable="0+"),
        Field("host", "string", "0+", nullable="0+"),
    )
