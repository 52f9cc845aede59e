"""ProduceRequest and ProduceResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID, Buffer


class PartitionProduceData(Struct):
    """Inside ProduceRequest."""

    index: int = 0
    records: Buffer | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("index", "int32", "0+"),
        Field("records", "records", "0+", nullable="0+"),
    )


class TopicProduceData(Struct):
    """Inside ProduceRequest."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partition_data", PartitionProduceData, "0+", array=True),
    )


class ProduceRequest(Struct):
    """Versions 3-13, flexible: 9+."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)

    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[str] = "3-13"
    FLEXIBLE: ClassVar[str] = "9+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "3+", nullable="3+"),
        Field("acks", "int16", "0+"),
        Field("timeout_ms", "int32", "0+"),
        Field("topic_data", TopicProduceData, "0+", array=True),
    )


class BatchIndexAndErrorMessage(Struct):
    """Inside ProduceResponse."""

    batch_index: int = 0
    batch_index_error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("batch_index", "int32", "8+"),
        Field("batch_index_error_message", "string", "8+", nullable="8+"),
    )


class LeaderIdAndEpoch(Struct):
    """Inside ProduceResponse."""

    leader_id: int = -1
    leader_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("leader_id", "int32", "10+"),
        Field("leader_epoch", "int32", "10+"),
    )


class PartitionProduceResponse(Struct):
    """Inside ProduceResponse."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("base_offset", "int64", "0+"),
        Field("log_append_time_ms", "int64", "2+"),
        Field("log_start_offset", "int64", "5+"),
        Field("record_errors", BatchIndexAndErrorMessage, "8+", array=True),
        Field("error_message", "string", "8+", nullable="8+"),
        Field("current_leader", LeaderIdAndEpoch, "10+", tag=0, tagged="10+"),
    )


class TopicProduceResponse(Struct):
    """Inside ProduceResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partition_responses", PartitionProduceResponse, "0+", array=True),
    )


class NodeEndpoint(Struct):
    """Inside ProduceResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "10+"),
        Field("host", "string", "10+"),
        Field("port", "int32", "10+"),
        Field("rack", "string", "10+", nullable="10+"),
    )


class ProduceResponse(Struct):
    """Versions 3-13, flexible: 9+."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[str] = "3-13"
    FLEXIBLE: ClassVar[str] = "9+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("responses", TopicProduceResponse, "0+", array=True),
        Field("throttle_time_ms", "int32", "1+"),
        Field("node_endpoints", NodeEndpoint, "10+", array=True, tag=0, tagged="10+"),
    )
