"""ConsumerGroupDescribeRequest and ConsumerGroupDescribeResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar
from uuid import UUID

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field
from tailrace.protocol.codec.primitives import NO_UUID


class ConsumerGroupDescribeRequest(Struct):
    """Versions 0-1, flexible: 0+."""

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    API_KEY: ClassVar[int] = 69
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_ids", "string", "0+", array=True),
        Field("include_authorized_operations", "bool", "0+"),
    )


class TopicPartitions(Struct):
    """Inside ConsumerGroupDescribeResponse."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("topic_name", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class Assignment(Struct):
    """Inside ConsumerGroupDescribeResponse."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", TopicPartitions, "0+", array=True),
    )


class Member(Struct):
    """Inside ConsumerGroupDescribeResponse."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("member_epoch", "int32", "0+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("subscribed_topic_names", "string", "0+", array=True),
        Field("subscribed_topic_regex", "string", "0+", nullable="0+"),
        Field("assignment", Assignment, "0+"),
        Field("target_assignment", Assignment, "0+"),
        Field("member_type", "int8", "1+"),
    )


class DescribedGroup(Struct):
    """Inside ConsumerGroupDescribeResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("group_id", "string", "0+"),
        Field("group_state", "string", "0+"),
        Field("group_epoch", "int32", "0+"),
        Field("assignment_epoch", "int32", "0+"),
        Field("assignor_name", "string", "0+"),
        Field("members", Member, "0+", array=True),
        Field("authorized_operations", "int32", "0+"),
    )


class ConsumerGroupDescribeResponse(Struct):
    """Versions 0-1, flexible: 0+."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)

    API_KEY: ClassVar[int] = 69
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("groups", DescribedGroup, "0+", array=True),
    )
