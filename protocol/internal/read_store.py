"""ReadStoreRequest and ReadStoreResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class ReadStoreRequest(Struct):
    """Versions 0, flexible: 0+."""

    topic_id: UUID = NO_UUID
    partition: int = 0
    offset: int = 0
    bytes_max: int = 0

    API_KEY: ClassVar[int] = 12003
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("offset", "int64", "0+"),
        Field("bytes_max", "int32", "0+"),
    )


class CopySet(Struct):
    """Inside ReadStoreResponse."""

    spus: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spus", "int32", "0+", array=True),
    )


class ReadStoreResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    promised: int = -1
    in_doubt: bool = False
    high_watermark: int = -1
    log_start: int = -1
    log_end: int = -1
    policy: str = ""
    replicas_min: int = 0
    leader: int = -1
    epoch: int = -1
    version: int = 0
    replicas: list[int] = field(default_factory=list)
    live_replicas: list[int] = field(default_factory=list)
    copy_sets: list[CopySet] = field(default_factory=list)
    records: bytes = b""

    API_KEY: ClassVar[int] = 12003
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("promised", "int32", "0+"),
        Field("in_doubt", "bool", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("log_start", "int64", "0+"),
        Field("log_end", "int64", "0+"),
        Field("policy", "string", "0+"),
        Field("replicas_min", "int32", "0+"),
        Field("leader", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("version", "int32", "0+"),
        Field("replicas", "int32", "0+", array=True),
        Field("live_replicas", "int32", "0+", array=True),
        Field("copy_sets", CopySet, "0+", array=True),
        Field("records", "bytes", "0+"),
    )
