"""ApplySpecsRequest and ApplySpecsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class Config(Struct):
    """Inside ApplySpecsRequest."""

    name: str = ""
    value: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("value", "string", "0+"),
    )


class LiveReplica(Struct):
    """Inside ApplySpecsRequest."""

    spu_id: int = 0
    incarnation: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_id", "int32", "0+"),
        Field("incarnation", "string", "0+"),
    )


class CopySet(Struct):
    """Inside ApplySpecsRequest."""

    spu_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("spu_ids", "int32", "0+", array=True),
    )


class Shelf(Struct):
    """Inside ApplySpecsRequest."""

    base: int = 0
    end: int = 0
    stores: list[int] = field(default_factory=list)
    filling: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("base", "int64", "0+"),
        Field("end", "int64", "0+"),
        Field("stores", "int32", "0+", array=True),
        Field("filling", "int32", "0+", array=True),
    )


class PartitionState(Struct):
    """Inside ApplySpecsRequest."""

    partition: int = 0
    leader: int = -1
    epoch: int = -1
    leader_incarnation: str = ""
    replicas: list[int] = field(default_factory=list)
    live_replicas: list[LiveReplica] = field(default_factory=list)
    version: int = 0
    was_unclean: bool = False
    copy_sets: list[CopySet] = field(default_factory=list)
    shelved_from: int = 0
    shelves: list[Shelf] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("leader", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("leader_incarnation", "string", "0+"),
        Field("replicas", "int32", "0+", array=True),
        Field("live_replicas", LiveReplica, "0+", array=True),
        Field("version", "int32", "0+"),
        Field("was_unclean", "bool", "0+"),
        Field("copy_sets", CopySet, "0+", array=True),
        Field("shelved_from", "int64", "0+", tag=0, tagged="0+"),
        Field("shelves", Shelf, "0+", array=True, tag=1, tagged="0+"),
    )


class TopicState(Struct):
    """Inside ApplySpecsRequest."""

    topic_id: UUID = NO_UUID
    name: str = ""
    is_internal: bool = False
    configs: list[Config] = field(default_factory=list)
    partitions: list[PartitionState] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("name", "string", "0+"),
        Field("is_internal", "bool", "0+"),
        Field("configs", Config, "0+", array=True),
        Field("partitions", PartitionState, "0+", array=True),
    )


class RemovedPartition(Struct):
    """Inside ApplySpecsRequest."""

    topic_id: UUID = NO_UUID
    partition: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
    )


class ApplySpecsRequest(Struct):
    """Versions 0, flexible: 0+."""

    is_full: bool = False
    size_bytes: int = -1
    default_configs: list[Config] = field(default_factory=list)
    own_configs: list[Config] = field(default_factory=list)
    topics: list[TopicState] = field(default_factory=list)
    removed: list[RemovedPartition] = field(default_factory=list)

    API_KEY: ClassVar[int] = 10050
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("is_full", "bool", "0+"),
        Field("size_bytes", "int64", "0+"),
        Field("default_configs", Config, "0+", array=True),
        Field("own_configs", Config, "0+", array=True),
        Field("topics", TopicState, "0+", array=True),
        Field("removed", RemovedPartition, "0+", array=True),
    )


class ApplySpecsResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None

    API_KEY: ClassVar[int] = 10050
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )
