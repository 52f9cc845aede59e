"""ElectLeadersRequest and ElectLeadersResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class TopicPartitions(Struct):
    """Inside ElectLeadersRequest."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ElectLeadersRequest(Struct):
    """Versions 0-2, flexible: 2+."""

    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000

    API_KEY: ClassVar[int] = 43
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("election_type", "int8", "1+"),
        Field("topic_partitions", TopicPartitions, "0+", array=True, nullable="0+"),
        Field("timeout_ms", "int32", "0+"),
    )


class PartitionResult(Struct):
    """Inside ElectLeadersResponse."""

    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_id", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class ReplicaElectionResult(Struct):
    """Inside ElectLeadersResponse."""

    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partition_result", PartitionResult, "0+", array=True),
    )


class ElectLeadersResponse(Struct):
    """Versions 0-2, flexible: 2+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 43
    VERSIONS: ClassVar[str] = "0-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "1+"),
        Field("replica_election_results", ReplicaElectionResult, "0+", array=True),
    )
