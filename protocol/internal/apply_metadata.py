"""ApplyMetadataRequest and ApplyMetadataResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class Endpoint(Struct):
    """Inside ApplyMetadataRequest."""

    name: str = ""
    host: str = ""
    port: int = 0
    on_all_addresses: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("host", "string", "0+"),
        Field("port", "int32", "0+"),
        Field("on_all_addresses", "bool", "0+", tag=0, tagged="0+"),
    )


class SpuState(Struct):
    """Inside ApplyMetadataRequest."""

    id: int = 0
    rack: str | None = None
    is_online: bool = False
    endpoints: list[Endpoint] = field(default_factory=list)
    private_host: str = ""
    private_port: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", "int32", "0+"),
        Field("rack", "string", "0+", nullable="0+"),
        Field("is_online", "bool", "0+"),
        Field("endpoints", Endpoint, "0+", array=True),
        Field("private_host", "string", "0+"),
        Field("private_port", "int32", "0+"),
    )


class Config(Struct):
    """Inside ApplyMetadataRequest."""

    name: str = ""
    value: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("value", "string", "0+"),
    )


class PartitionState(Struct):
    """Inside ApplyMetadataRequest."""

    partition: int = 0
    leader: int = -1
    epoch: int = -1
    replicas: list[int] = field(default_factory=list)
    live_replicas: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("leader", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("replicas", "int32", "0+", array=True),
        Field("live_replicas", "int32", "0+", array=True),
    )


class TopicState(Struct):
    """Inside ApplyMetadataRequest."""

    topic_id: UUID = NO_UUID
    name: str = ""
    is_internal: bool = False
    configs: list[Config] = field(default_factory=list)
    partitions: list[PartitionState] = field(default_factory=list)
    is_whole: bool = True

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("name", "string", "0+"),
        Field("is_internal", "bool", "0+"),
        Field("configs", Config, "0+", array=True),
        Field("partitions", PartitionState, "0+", array=True),
        Field("is_whole", "bool", "0+"),
    )


class GroupState(Struct):
    """Inside ApplyMetadataRequest."""

    group: str = ""
    configs: list[Config] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group", "string", "0+"),
        Field("configs", Config, "0+", array=True),
    )


class WaitingTopic(Struct):
    """Inside ApplyMetadataRequest."""

    topic_id: UUID = NO_UUID
    name: str = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("name", "string", "0+"),
        Field("error_code", "int16", "0+"),
    )


class SecurityState(Struct):
    """Inside ApplyMetadataRequest."""

    kind: str = ""
    key: str = ""
    value: bytes | None = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("kind", "string", "0+"),
        Field("key", "string", "0+"),
        Field("value", "bytes", "0+", nullable="0+"),
    )


class ApplyMetadataRequest(Struct):
    """Versions 0, flexible: 0+."""

    is_full: bool = False
    version: int = 0
    cluster_id: str = ""
    controller_id: int = -1
    spus: list[SpuState] = field(default_factory=list)
    removed_spus: list[int] = field(default_factory=list)
    topics: list[TopicState] = field(default_factory=list)
    removed_topics: list[UUID] = field(default_factory=list)
    groups: list[GroupState] = field(default_factory=list)
    hidden_topics: list[UUID] = field(default_factory=list)
    waiting_topics: list[WaitingTopic] = field(default_factory=list)
    security: list[SecurityState] = field(default_factory=list)
    login_secret: str = ""

    API_KEY: ClassVar[int] = 10051
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("is_full", "bool", "0+"),
        Field("version", "int64", "0+"),
        Field("cluster_id", "string", "0+"),
        Field("controller_id", "int32", "0+"),
        Field("spus", SpuState, "0+", array=True),
        Field("removed_spus", "int32", "0+", array=True),
        Field("topics", TopicState, "0+", array=True),
        Field("removed_topics", "uuid", "0+", array=True),
        Field("groups", GroupState, "0+", array=True),
        Field("hidden_topics", "uuid", "0+", array=True, tag=0, tagged="0+"),
        Field("waiting_topics", WaitingTopic, "0+", array=True, tag=1, tagged="0+"),
        Field("security", SecurityState, "0+", array=True, tag=2, tagged="0+"),
        Field("login_secret", "string", "0+", tag=3, tagged="0+"),
    )


class ApplyMetadataResponse(Struct):
    """Versions 0, flexible: 0+."""

    API_KEY: ClassVar[int] = 10051
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = ()
