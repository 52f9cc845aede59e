"""CreateTopicsRequest and CreateTopicsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class CreatableReplicaAssignment(Struct):
    """Inside CreateTopicsRequest."""

    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("broker_ids", "int32", "0+", array=True),
    )


class CreatableTopicConfig(Struct):
    """Inside CreateTopicsRequest."""

    name: str = ""
    value: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("value", "string", "0+", nullable="0+"),
    )


class CreatableTopic(Struct):
    """Inside CreateTopicsRequest."""

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("num_partitions", "int32", "0+"),
        Field("replication_factor", "int16", "0+"),
        Field("assignments", CreatableReplicaAssignment, "0+", array=True),
        Field("configs", CreatableTopicConfig, "0+", array=True),
    )


class CreateTopicsRequest(Struct):
    """Versions 2-7, flexible: 5+."""

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False

    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[str] = "2-7"
    FLEXIBLE: ClassVar[str] = "5+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", CreatableTopic, "0+", array=True),
        Field("timeout_ms", "int32", "0+"),
        Field("validate_only", "bool", "1+"),
    )


class CreatableTopicConfigs(Struct):
    """Inside CreateTopicsResponse."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "5+"),
        Field("value", "string", "5+", nullable="5+"),
        Field("read_only", "bool", "5+"),
        Field("config_source", "int8", "5+"),
        Field("is_sensitive", "bool", "5+"),
    )


class CreatableTopicResult(Struct):
    """Inside CreateTopicsResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("topic_id", "uuid", "7+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "1+", nullable="0+"),
        Field("topic_config_error_code", "int16", "5+", tag=0, tagged="5+"),
        Field("num_partitions", "int32", "5+"),
        Field("replication_factor", "int16", "5+"),
        Field("configs", CreatableTopicConfigs, "5+", array=True, nullable="5+"),
    )


class CreateTopicsResponse(Struct):
    """Versions 2-7, flexible: 5+."""

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[str] = "2-7"
    FLEXIBLE: ClassVar[str] = "5+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("topics", CreatableTopicResult, "0+", array=True),
    )
