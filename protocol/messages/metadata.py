"""MetadataRequest and MetadataResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class MetadataRequestTopic(Struct):
    """Inside MetadataRequest."""

    topic_id: UUID = NO_UUID
    name: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "10+"),
        Field("name", "string", "0+", nullable="10+"),
    )


class MetadataRequest(Struct):
    """Versions 0-13, flexible: 9+."""

    topics: list[MetadataRequestTopic] | None = field(default_factory=list)
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False

    API_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[str] = "0-13"
    FLEXIBLE: ClassVar[str] = "9+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", MetadataRequestTopic, "0+", array=True, nullable="1+"),
        Field("allow_auto_topic_creation", "bool", "4+"),
        Field("include_cluster_authorized_operations", "bool", "8-10"),
        Field("include_topic_authorized_operations", "bool", "8+"),
    )


class MetadataResponseBroker(Struct):
    """Inside MetadataResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "0+"),
        Field("host", "string", "0+"),
        Field("port", "int32", "0+"),
        Field("rack", "string", "1+", nullable="1+"),
    )


class MetadataResponsePartition(Struct):
    """Inside MetadataResponse."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("partition_index", "int32", "0+"),
        Field("leader_id", "int32", "0+"),
        Field("leader_epoch", "int32", "7+"),
        Field("replica_nodes", "int32", "0+", array=True),
        Field("isr_nodes", "int32", "0+", array=True),
        Field("offline_replicas", "int32", "5+", array=True),
    )


class MetadataResponseTopic(Struct):
    """Inside MetadataResponse."""

    error_code: int = 0
    name: str | None = ""
    topic_id: UUID = NO_UUID
    is_internal: bool = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("name", "string", "0+", nullable="12+"),
        Field("topic_id", "uuid", "10+"),
        Field("is_internal", "bool", "1+"),
        Field("partitions", MetadataResponsePartition, "0+", array=True),
        Field("topic_authorized_operations", "int32", "8+"),
    )


class MetadataResponse(Struct):
    """Versions 0-13, flexible: 9+."""

    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0

    API_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[str] = "0-13"
    FLEXIBLE: ClassVar[str] = "9+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "3+"),
        Field("brokers", MetadataResponseBroker, "0+", array=True),
        Field("cluster_id", "string", "2+", nullable="2+"),
        Field("controller_id", "int32", "1+"),
        Field("topics", MetadataResponseTopic, "0+", array=True),
        Field("cluster_authorized_operations", "int32", "8-10"),
        Field("error_code", "int16", "13+"),
    )
