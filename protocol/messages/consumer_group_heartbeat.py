"""ConsumerGroupHeartbeatRequest and ConsumerGroupHeartbeatResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class TopicPartitions(Struct):
    """Inside ConsumerGroupHeartbeatRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ConsumerGroupHeartbeatRequest(Struct):
    """Versions 0-1, flexible: 0+."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None

    API_KEY: ClassVar[int] = 68
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("member_id", "string", "0+"),
        Field("member_epoch", "int32", "0+"),
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("rebalance_timeout_ms", "int32", "0+"),
        Field("subscribed_topic_names", "string", "0+", array=True, nullable="0+"),
        Field("subscribed_topic_regex", "string", "1+", nullable="1+"),
        Field("server_assignor", "string", "0+", nullable="0+"),
        Field("topic_partitions", TopicPartitions, "0+", array=True, nullable="0+"),
    )


class Assignment(Struct):
    """Inside ConsumerGroupHeartbeatResponse."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", TopicPartitions, "0+", array=True),
    )


class ConsumerGroupHeartbeatResponse(Struct):
    """Versions 0-1, flexible: 0+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

    API_KEY: ClassVar[int] = 68
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("member_id", "string", "0+", nullable="0+"),
        Field("member_epoch", "int32", "0+"),
        Field("heartbeat_interval_ms", "int32", "0+"),
        Field("assignment", Assignment, "0+", nullable="0+"),
    )
