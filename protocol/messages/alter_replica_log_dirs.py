"""AlterReplicaLogDirsRequest and AlterReplicaLogDirsResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class AlterReplicaLogDirTopic(Struct):
    """Inside AlterReplicaLogDirsRequest."""

    name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class AlterReplicaLogDir(Struct):
    """Inside AlterReplicaLogDirsRequest."""

    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("path", "string", "0+"),
        Field("topics", AlterReplicaLogDirTopic, "0+", array=True),
    )


class AlterReplicaLogDirsRequest(Struct):
    """Versions 1-2, flexible: 2+."""

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)

    API_KEY: ClassVar[int] = 34
    VERSIONS: ClassVar[str] = "1-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("dirs", AlterReplicaLogDir, "0+", array=True),
    )


class AlterReplicaLogDirPartitionResult(Struct):
    """Inside AlterReplicaLogDirsResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )


class AlterReplicaLogDirTopicResult(Struct):
    """Inside AlterReplicaLogDirsResponse."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("partitions", AlterReplicaLogDirPartitionResult, "0+", array=True),
    )


class AlterReplicaLogDirsResponse(Struct):
    """Versions 1-2, flexible: 2+."""

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 34
    VERSIONS: ClassVar[str] = "1-2"
    FLEXIBLE: ClassVar[str] = "2+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", AlterReplicaLogDirTopicResult, "0+", array=True),
    )
