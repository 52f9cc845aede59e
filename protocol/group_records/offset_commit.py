"""OffsetCommitKey and OffsetCommitValue, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class OffsetCommitKey(Struct):
    """Versions 0, flexible: none."""

    group: str = ""
    topic: str = ""
    partition: int = 0

    RECORD_TYPE: ClassVar[int] = 1
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "none"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", "0"),
        Field("topic", "string", "0"),
        Field("partition", "int32", "0"),
    )


class OffsetCommitValue(Struct):
    """Versions 0-4, flexible: 4+."""

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: UUID = NO_UUID

    RECORD_TYPE: ClassVar[int] = 1
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("offset", "int64", "0+"),
        Field("leader_epoch", "int32", "3+"),
        Field("metadata", "string", "0+"),
        Field("commit_timestamp", "int64", "0+"),
        Field("expire_timestamp", "int64", "1"),
        Field("topic_id", "uuid", "4+", tag=0, tagged="4+"),
    )
