"""WriteTxnMarkersRequest and WriteTxnMarkersResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class WritableTxnMarkerTopic(Struct):
    """Inside WriteTxnMarkersRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partition_indexes", "int32", "0+", array=True),
    )


class WritableTxnMarker(Struct):
    """Inside WriteTxnMarkersRequest."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int = 0
    transaction_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int16", "0+"),
        Field("transaction_result", "bool", "0+"),
        Field("topics", WritableTxnMarkerTopic, "0+", array=True),
        Field("coordinator_epoch", "int32", "0+"),
        Field("transaction_version", "int8", "2+"),
    )


class WriteTxnMarkersRequest(Struct):
    """Versions 1-2, flexible: 1+."""

    markers: list[WritableTxnMarker] = field(default_factory=list)

    API_KEY: ClassVar[int] = 27
    VERSIONS: ClassVar[str] = "1-2"
    FLEXIBLE: ClassVar[str] = "1+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("markers", WritableTxnMarker, "0+", array=True),
    )


class WritableTxnMarkerPartitionResult(Struct):
    """Inside WriteTxnMarkersResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )


class WritableTxnMarkerTopicResult(Struct):
    """Inside WriteTxnMarkersResponse."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", WritableTxnMarkerPartitionResult, "0+", array=True),
    )


class WritableTxnMarkerResult(Struct):
    """Inside WriteTxnMarkersResponse."""

    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("topics", WritableTxnMarkerTopicResult, "0+", array=True),
    )


class WriteTxnMarkersResponse(Struct):
    """Versions 1-2, flexible: 1+."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 27
    VERSIONS: ClassVar[str] = "1-2"
    FLEXIBLE: ClassVar[str] = "1+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("markers", WritableTxnMarkerResult, "0+", array=True),
    )
